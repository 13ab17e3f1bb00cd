"""What makes a comparison unfair, or less certain than it looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from evenglot.scoring.metrics import METRICS

if TYPE_CHECKING:
    from evenglot.comparison.compare import Comparison, Row

Kind = Literal[
    "metric-left-out",
    "different-decoding",
    "outdated-scores",
    "different-training-data",
    "single-test-sentence",
    "worst-chosen-on-test",
    "validation-incomplete",
    "repeated-seed",
    "different-seeds",
    "different-updates",
    "noisy-row",
    "seed-variance-unknown",
    "seed-variance-assumed",
]


@dataclass(frozen=True)
class ComparisonWarning:
    """One warning: its kind, a sentence for people, and the rows, directions and metrics it concerns."""

    kind: Kind
    message: str
    rows: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As comparison.json has it; empty lists are left out."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items() if value}


Warnings = Iterator[ComparisonWarning]


def warnings_about(comparison: Comparison) -> Warnings:
    """All warnings, in the order in which they are printed."""
    yield from _metrics_left_out(comparison)
    yield from _different_tests(comparison)
    for row in comparison.rows:
        yield from _different_training(comparison, row)
    yield from _seed_variance(comparison)


def _metrics_left_out(comparison: Comparison) -> Warnings:
    for key, metric in METRICS.items():
        signatures = {run.signature.get(key) for run in comparison.resampled.runs}
        if len(signatures) < 2:
            continue
        if None in signatures:
            without = tuple(sorted({run.row for run in comparison.resampled.runs if key not in run.signature}))
            message = f"{metric.label} left out: {', '.join(without)} scored without it; run `evenglot score` again"
            yield ComparisonWarning("metric-left-out", message, rows=without, metrics=(key,))
        else:
            message = f"{metric.label} left out: computed in different ways ({', '.join(sorted(map(str, signatures)))})"
            yield ComparisonWarning("metric-left-out", message, metrics=(key,))


def _different_tests(comparison: Comparison) -> Warnings:
    runs = comparison.resampled.runs
    if len({tuple(sorted((k, v) for k, v in run.made.items() if k != "step")) for run in runs}) > 1:
        message = "not all translations were made in the same way (beam, engine, checkpoint): see `made` in scores.json"
        yield ComparisonWarning("different-decoding", message)
    for run in runs:
        if run.behind:
            message = f"{run.folder}: trained further since it was scored; run `evenglot score` again"
            yield ComparisonWarning("outdated-scores", message, rows=(run.row,))
    other = tuple(sorted(n for n, pairs in comparison.pairs.items() if any(r.pairs.get(n) != pairs for r in runs)))
    if other:
        message = f"not all runs were trained on the same number of pairs of {', '.join(other)}"
        yield ComparisonWarning("different-training-data", message, directions=other)
    if single := tuple(name for name, lines in comparison.resampled.lines.items() if lines == 1):
        message = f"{', '.join(single)}: only one test sentence, so intervals mean nothing"
        yield ComparisonWarning("single-test-sentence", message, directions=single)
    if not comparison.validated:
        message = "no validation losses: the worst direction is chosen on the test set, so it looks worse than it is"
        yield ComparisonWarning("worst-chosen-on-test", message)
    elif without := tuple(name for name in comparison.pairs if name not in comparison.validated):
        message = f"no validation losses of {', '.join(without)}: never chosen as the worst direction"
        yield ComparisonWarning("validation-incomplete", message, directions=without)


def _different_training(comparison: Comparison, row: Row) -> Warnings:
    name, reference = row.name, comparison.reference
    if len(set(row.seeds)) < len(row.seeds):
        message = f"{name}: several runs with the same seed; give different strategies different names (NAME=RUN)"
        yield ComparisonWarning("repeated-seed", message, rows=(name,))
    if row.seeds != reference.seeds:
        effect = "removed from the difference" if comparison.contrasts[name].by_seed else "part of the noise"
        message = f"{name}: seeds {row.seeds}, {reference.name} {reference.seeds}; the effect of seeds is {effect}"
        yield ComparisonWarning("different-seeds", message, rows=(name, reference.name))
    if row.cost.updates != reference.cost.updates:
        updates = f"{row.cost.updates:,.0f} updates, {reference.name} {reference.cost.updates:,.0f}"
        message = f"{name}: {updates}: not the same amount of training"
        yield ComparisonWarning("different-updates", message, rows=(name, reference.name))


def _seed_variance(comparison: Comparison) -> Warnings:
    reference = comparison.reference.name
    for name in comparison.noisy:
        judged = (
            "as it is the reference, each difference is judged by the runs of its two rows alone"
            if name == reference
            else f"judged by its own runs and those of {reference} alone"
        )
        message = f"{name}: varies more from seed to seed than the other rows; {judged}"
        yield ComparisonWarning("noisy-row", message, rows=(name,))
    unknown = tuple(name for name, each in comparison.contrasts.items() if not each.freedom)
    single = tuple(row.name for row in comparison.rows if len(row.seeds) == 1)
    if unknown:
        which = "" if len(unknown) == len(comparison.contrasts) else f" of {', '.join(unknown)}"
        message = (
            f"one seed{which}: intervals cover the choice of test sentences, not of seeds; use three or more seeds"
        )
        yield ComparisonWarning("seed-variance-unknown", message, rows=unknown)
    elif single and len(comparison.rows) > 1:
        message = f"one seed of {', '.join(single)}: assumed to vary as much as the other rows"
        yield ComparisonWarning("seed-variance-assumed", message, rows=single)
