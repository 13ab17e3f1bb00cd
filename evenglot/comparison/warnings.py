"""What makes a comparison unfair, or impossible: said before anybody believes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenglot.scoring.metrics import METRICS

if TYPE_CHECKING:
    from evenglot.comparison.compare import Comparison


def doubts_about(comparison: Comparison) -> Iterator[str]:
    """What is not alike, and what cannot be told from so little."""
    yield from _about_scores(comparison)
    reference = comparison.reference
    for row in comparison.rows:
        if len(set(row.seeds)) < len(row.seeds):
            yield f"{row.name}: several runs with the same seed; give different strategies different names (NAME=RUN)"
        if row.seeds != reference.seeds:
            seeds = f"{row.name}: its seeds {row.seeds} are not those of {reference.name} {reference.seeds}"
            by_seed = comparison.contrasts[row.name].by_seed
            yield f"{seeds}; what seeds do {'to all rows is taken out of the difference' if by_seed else 'is noise'}"
        if row.cost.updates != reference.cost.updates:
            yield (
                f"{row.name}: {row.cost.updates:,.0f} updates, {reference.name} {reference.cost.updates:,.0f}: not the "
                "same amount of training"
            )
    yield from _about_noise(comparison)


def _about_scores(comparison: Comparison) -> Iterator[str]:
    runs = comparison.resampled.runs
    for metric in METRICS:
        if len(signatures := {run.signature.get(metric) for run in runs}) > 1:
            yield (
                f"{METRICS[metric].label} left out: made in different ways ({', '.join(sorted(map(str, signatures)))})"
            )
    if len({tuple(sorted((k, v) for k, v in r.made.items() if k != "step")) for r in runs}) > 1:
        yield "the translations were not all made in the same way (beam, engine, checkpoint); see `made` in scores.json"
    for run in runs:
        if run.behind:
            yield f"{run.folder}: was trained further since it was scored; run `evenglot score` again"
    other = {n for n, pairs in comparison.pairs.items() if any(r.pairs.get(n) != pairs for r in runs)}
    if other:
        yield f"not all runs were trained on as many pairs of {', '.join(sorted(other))}"
    if single := [name for name, lines in comparison.resampled.lines.items() if lines == 1]:
        yield f"{', '.join(single)}: one test sentence, which tells nothing of others"
    if not comparison.validated:
        yield "no validation losses: the worst direction is chosen on the test set, so it looks worse than it is"
    elif len(comparison.validated) < len(comparison.pairs):
        without = ", ".join(name for name in comparison.pairs if name not in comparison.validated)
        yield f"no validation losses of {without}: not among those of which the worst is chosen"


def _about_noise(comparison: Comparison) -> Iterator[str]:
    for name in comparison.noisy:
        differ = f"{name}: its runs differ more from seed to seed than those of other rows"
        if name == comparison.reference.name:
            yield f"{differ}; as it is the reference, each row is judged by its own runs and these alone"
        else:
            yield f"{differ}; judged by its own runs and those of {comparison.reference.name} alone"
    unknown = [name for name, each in comparison.contrasts.items() if not each.freedom]
    single = [row.name for row in comparison.rows if len(row.seeds) == 1]
    if unknown:
        which = "" if len(unknown) == len(comparison.contrasts) else f" of {', '.join(unknown)}"
        yield f"one seed{which}: intervals tell about other test sentences, not about training again; use three or more"
    elif single and len(comparison.rows) > 1:
        yield f"one seed of {', '.join(single)}: taken to be as noisy as the other rows are"
