"""Warnings about comparisons that are unfair or less certain than they look."""

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
    """A warning: kind, message, and the rows, directions and metrics it concerns."""

    kind: Kind
    message: str
    rows: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The form used in comparison.json; empty lists are omitted."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items() if value}


Warnings = Iterator[ComparisonWarning]


def warnings_about(comparison: Comparison) -> Warnings:
    """All warnings, in printing order."""
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
            message = f"{metric.label} left out: no such scores for {', '.join(without)}; run `evenglot score` again"
            yield ComparisonWarning("metric-left-out", message, rows=without, metrics=(key,))
        else:
            message = f"{metric.label} left out: signatures differ ({', '.join(sorted(map(str, signatures)))})"
            yield ComparisonWarning("metric-left-out", message, metrics=(key,))


def _different_tests(comparison: Comparison) -> Warnings:
    runs = comparison.resampled.runs
    if len({tuple(sorted((k, v) for k, v in run.made.items() if k != "step")) for run in runs}) > 1:
        message = "runs were decoded with different settings (beam, engine, checkpoint): see `made` in scores.json"
        yield ComparisonWarning("different-decoding", message)
    for run in runs:
        if run.behind:
            message = f"{run.folder}: has a newer best checkpoint than the scored one; run `evenglot score` again"
            yield ComparisonWarning("outdated-scores", message, rows=(run.row,))
    other = tuple(sorted(n for n, pairs in comparison.pairs.items() if any(r.pairs.get(n) != pairs for r in runs)))
    if other:
        message = f"runs were trained on different numbers of sentence pairs for {', '.join(other)}"
        yield ComparisonWarning("different-training-data", message, directions=other)
    if single := tuple(name for name, lines in comparison.resampled.lines.items() if lines == 1):
        message = f"{', '.join(single)}: only one test sentence, so confidence intervals are meaningless"
        yield ComparisonWarning("single-test-sentence", message, directions=single)
    if not comparison.validated:
        message = "no validation losses: the worst direction is chosen on the test set, which biases its score"
        yield ComparisonWarning("worst-chosen-on-test", message)
    elif without := tuple(name for name in comparison.pairs if name not in comparison.validated):
        message = f"no validation losses for {', '.join(without)}: excluded when choosing the worst direction"
        yield ComparisonWarning("validation-incomplete", message, directions=without)


def _different_training(comparison: Comparison, row: Row) -> Warnings:
    name, reference = row.name, comparison.reference
    if len(set(row.seeds)) < len(row.seeds):
        message = f"{name}: several runs have the same seed; if their strategies differ, name them apart (NAME=RUN)"
        yield ComparisonWarning("repeated-seed", message, rows=(name,))
    if row.seeds != reference.seeds:
        effect = "removed from the difference" if comparison.contrasts[name].by_seed else "counted as noise"
        message = f"{name}: seeds {row.seeds}, but {reference.name} {reference.seeds}; seed effects are {effect}"
        yield ComparisonWarning("different-seeds", message, rows=(name, reference.name))
    if row.cost.updates != reference.cost.updates:
        message = f"{name}: {row.cost.updates:,.0f} updates, but {reference.name} {reference.cost.updates:,.0f}"
        yield ComparisonWarning("different-updates", message, rows=(name, reference.name))


def _seed_variance(comparison: Comparison) -> Warnings:
    reference = comparison.reference.name
    for name in comparison.noisy:
        estimate = (
            "as it is the reference, seed variance is estimated separately for each pair of rows"
            if name == reference
            else f"its seed variance is estimated from its own runs and those of {reference} only"
        )
        message = f"{name}: larger seed variance than the other rows; {estimate}"
        yield ComparisonWarning("noisy-row", message, rows=(name,))
    unknown = tuple(name for name, each in comparison.contrasts.items() if not each.freedom)
    single = tuple(row.name for row in comparison.rows if len(row.seeds) == 1)
    if unknown:
        which = "" if len(unknown) == len(comparison.contrasts) else f" for {', '.join(unknown)}"
        message = (
            f"one seed{which}: confidence intervals cover the choice of test sentences but not seed variance; "
            "use three or more seeds"
        )
        yield ComparisonWarning("seed-variance-unknown", message, rows=unknown)
    elif single and len(comparison.rows) > 1:
        message = f"one seed for {', '.join(single)}: seed variance assumed equal to that of the other rows"
        yield ComparisonWarning("seed-variance-assumed", message, rows=single)
