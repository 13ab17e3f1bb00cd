"""What makes a comparison unfair, or impossible: said before anybody believes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evenglot.evaluation.results import Result
from evenglot.evaluation.statistics import METRICS

if TYPE_CHECKING:
    from evenglot.evaluation.compare import Comparison


def refuse_different_tests(results: Sequence[Result]) -> None:
    """Runs that were scored on different sentences cannot be compared sentence by sentence."""
    seen: dict[str, tuple[str, Result]] = {}
    for result in results:
        for name, found in result.statistics.references.items():
            before, first = seen.setdefault(name, (found, result))
            if found != before:
                raise ValueError(
                    f"{name}: {first.folder} and {result.folder} were scored on different sentences; score both on one "
                    "test set"
                )


def mention_doubts(comparison: Comparison, warn: Callable[[str], object]) -> None:
    """What is not alike, and what cannot be told from so little."""
    reference = comparison.reference
    results = [result for row in comparison.rows for result in row.results]
    for metric in METRICS:
        if len(signatures := {result.signature.get(metric) for result in results}) > 1:
            warn(
                f"{METRICS[metric].label} left out: made in different ways ({', '.join(sorted(map(str, signatures)))})"
            )
    if len({tuple(sorted((k, v) for k, v in r.made.items() if k != "step")) for r in results}) > 1:
        warn("the translations were not all made in the same way (beam, engine, checkpoint); see `made` in scores.json")
    for result in results:
        if result.behind:
            warn(f"{result.folder}: was trained further since it was scored; run `evenglot score` again")
    other = {n for n, pairs in comparison.pairs.items() if any(r.pairs.get(n) != pairs for r in results)}
    if other:
        warn(f"not all runs were trained on as many pairs of {', '.join(sorted(other))}")
    if not comparison.validated:
        warn("no validation losses: the worst direction is chosen on the test set, so it looks worse than it is")
    elif len(comparison.validated) < len(comparison.pairs):
        without = ", ".join(name for name in comparison.pairs if name not in comparison.validated)
        warn(f"no validation losses of {without}: not among those of which the worst is chosen")
    for row in comparison.rows:
        if len(set(row.seeds)) < len(row.seeds):
            warn(f"{row.name}: several runs with the same seed; give different strategies different names (NAME=RUN)")
        if row.seeds != reference.seeds:
            seeds = f"{row.name}: its seeds {row.seeds} are not those of {reference.name} {reference.seeds}"
            by_seed = comparison.contrasts[row.name].by_seed
            warn(f"{seeds}; what seeds do {'to all rows is taken out of the difference' if by_seed else 'is noise'}")
        if row.cost.updates != reference.cost.updates:
            warn(
                f"{row.name}: {row.cost.updates:,.0f} updates, {reference.name} {reference.cost.updates:,.0f}: not the "
                "same amount of training"
            )
    for name in comparison.noisy:
        warn(f"{name}: its runs differ more from seed to seed than those of other rows; judged by its own runs alone")
    if not all(each.freedom for each in comparison.contrasts.values()):
        warn("one seed: intervals tell about other test sentences, not about training again; use three or more")
    elif single := [row.name for row in comparison.rows if len(row.seeds) == 1]:
        warn(f"one seed of {', '.join(single)}: taken to be as noisy as the other rows are")
