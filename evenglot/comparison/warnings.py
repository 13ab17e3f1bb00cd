"""Warnings about comparisons that are unfair or less certain than they look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from evenglot.comparison.fairness import Topic, differing
from evenglot.scoring.metrics import METRICS
from evenglot.wording import listed

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
    "different-schedule",
    "different-optimizer",
    "different-batches",
    "different-model",
    "different-data",
    "barely-translates",
    "metrics-disagree",
    "noisy-row",
    "seed-variance-unknown",
    "seed-variance-assumed",
]


USABLE_BLEU = 3  # below it, output is hardly related to the input
LOSS_MARGIN = 0.005  # relative difference of validation losses that counts


@dataclass(frozen=True)
class ComparisonWarning:
    """A warning: kind, message, and the rows, directions, metrics and settings it concerns."""

    kind: Kind
    message: str
    rows: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The form used in comparison.json; empty lists are omitted."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items() if value}


Warnings = Iterator[ComparisonWarning]
UNFAIR: Mapping[Topic, tuple[Kind, str]] = {
    "schedule": ("different-schedule", "learning-rate schedule"),
    "optimizer": ("different-optimizer", "optimizer"),
    "batches": ("different-batches", "batch size"),
    "model": ("different-model", "model"),
    "data": ("different-data", "preparation of the data"),
}


def warnings_about(comparison: Comparison) -> Warnings:
    """All warnings, in printing order."""
    yield from _metrics_left_out(comparison)
    yield from _different_tests(comparison)
    for row in comparison.rows:
        yield from _different_training(comparison, row)
    yield from _barely_translate(comparison)
    for row in comparison.rows[1:]:
        yield from _metrics_disagree(comparison, row)
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
    settings, others = ([run.settings for run in each.runs] for each in (row, reference))
    for topic, (kind, what) in UNFAIR.items():
        if found := differing(settings, others, topic):
            values = "; ".join(f"{key} is {value} instead of {other}" for key, (value, other) in found.items())
            message = f"{name}: trained with another {what} than {reference.name}: {values}"
            yield ComparisonWarning(kind, message, rows=(name, reference.name), settings=tuple(found))


def _barely_translate(comparison: Comparison) -> Warnings:
    if "bleu" not in comparison.metrics:
        return
    names = list(comparison.pairs)
    means = {row.name: fmean(fmean(row.scores("bleu", name)) for name in names) for row in comparison.rows}
    if low := {name: mean for name, mean in means.items() if mean < USABLE_BLEU}:
        told = ", ".join(f"{name} {mean:.1f}" for name, mean in low.items())
        barely = "these models barely translate" if len(low) > 1 else "this model barely translates"
        if len(means) > 1:
            barely += ", and differences between such models say little about models that do"
        message = f"mean BLEU below {USABLE_BLEU} ({told}): {barely}; train longer"
        yield ComparisonWarning("barely-translates", message, rows=tuple(low), metrics=("bleu",))


def _metrics_disagree(comparison: Comparison, row: Row) -> Warnings:
    """Metrics with significant differences in opposite directions; validation losses have no test, only a margin."""
    signs = {}
    for key in comparison.metrics:
        low, high = comparison.mean_difference(row, key).interval
        signs[METRICS[key].label] = METRICS[key].sign * ((low > 0) - (high < 0))
    losses = [
        fmean(each.validation(name) or 0.0 for name in comparison.validated)
        for each in (row, comparison.reference)
        if comparison.validated
    ]
    if losses and abs(losses[0] - losses[1]) > LOSS_MARGIN * losses[1]:
        signs["validation loss"] = 1 if losses[0] < losses[1] else -1
    better, worse = ([label for label, sign in signs.items() if sign == wanted] for wanted in (1, -1))
    if better and worse:
        message = f"{row.name}: better in {listed(better)}, but worse in {listed(worse)}; no conclusion is safe"
        yield ComparisonWarning("metrics-disagree", message, rows=(row.name, comparison.reference.name))


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
