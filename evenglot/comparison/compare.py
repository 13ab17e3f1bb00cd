"""Compare strategies: scores per direction, and differences to a reference with significance tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from evenglot.comparison.bootstrap import ALPHA, Difference, difference, holm
from evenglot.comparison.preconditions import refuse_different_tests, refuse_twins
from evenglot.comparison.resampled_scores import ResampledScores
from evenglot.comparison.scored_run import Cost, ScoredRun, read_scored_run
from evenglot.comparison.seed_variance import Contrast, contrast, noisy_rows
from evenglot.comparison.warnings import ComparisonWarning, warnings_about
from evenglot.runs.run import Run
from evenglot.scoring.metrics import METRICS, Numbers, primary_of
from evenglot.scoring.summary import halves, largest_first
from evenglot.wording import listed

Means = tuple[float, float | None]  # mean over seeds, and standard deviation if there are several
GROUPS = ("mean", "worst", "low_resource", "high_resource")


@dataclass(frozen=True, eq=False)
class Row:
    """A strategy: its runs, which differ in their seed."""

    name: str
    runs: tuple[ScoredRun, ...]

    @property
    def seeds(self) -> list[int]:
        """The seed of each run."""
        return [run.seed for run in self.runs]

    def scores(self, metric: str, direction: str) -> list[float]:
        """The score of each run."""
        return [run.score(metric, direction) for run in self.runs]

    def validation(self, direction: str) -> float | None:
        """Validation loss per character, mean over runs."""
        losses = [run.validation[direction] for run in self.runs if direction in run.validation]
        return fmean(losses) if losses else None

    @property
    def passes(self) -> dict[str, float]:
        """Number of passes over each corpus, mean over runs."""
        common = set.intersection(*(set(run.passes) for run in self.runs))
        return {name: fmean(r.passes[name] for r in self.runs) for name in common}

    @property
    def cost(self) -> Cost:
        """Training cost, mean over runs."""
        costs = [asdict(run.cost) for run in self.runs]
        return Cost(**{key: fmean(cost[key] for cost in costs) for key in costs[0]})


@dataclass(frozen=True)
class Findings:
    """Differences between a strategy and the reference in one metric."""

    directions: dict[str, Difference]
    p_holm: dict[str, float]
    groups: dict[str, Difference]
    wins: list[str]
    losses: list[str]  # significantly worse directions ("harmed" in tables)

    @property
    def ties(self) -> int:
        """Number of directions without a significant difference."""
        return len(self.directions) - len(self.wins) - len(self.losses)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Rows, the first of which is the reference, and the scores of their runs; created by `compare`."""

    split: str
    rows: tuple[Row, ...]
    resampled: ResampledScores

    def __repr__(self) -> str:
        return f"<Comparison of {listed([row.name for row in self.rows])} on {self.split}; print it for tables>"

    def __str__(self) -> str:
        """The tables of `evenglot compare --format markdown`."""
        from evenglot.comparison.tables import to_markdown

        return to_markdown(self.as_json())

    _repr_markdown_ = __str__  # shown by notebooks

    def against(self, reference: str) -> Comparison:
        """The same runs compared to another reference."""
        if reference not in (names := [row.name for row in self.rows]):
            raise ValueError(f"--reference {reference}: no such row; available: {', '.join(names)}")
        rows = sorted(self.rows, key=lambda row: row.name != reference)
        return Comparison(self.split, tuple(rows), self.resampled)

    @property
    def reference(self) -> Row:
        """The row that the others are compared to."""
        return self.rows[0]

    @cached_property
    def pairs(self) -> dict[str, int]:
        """Number of training pairs of the directions common to all runs, largest first."""
        pairs = self.reference.runs[0].pairs
        return {name: pairs[name] for name in largest_first({name: pairs[name] for name in self.resampled.directions})}

    @property
    def metrics(self) -> list[str]:
        """Metrics common to all runs."""
        return self.resampled.metrics

    @cached_property
    def low_resource(self) -> list[str]:
        """Directions in the smaller half of the corpora."""
        return halves(self.pairs)[1]

    @cached_property
    def high_resource(self) -> list[str]:
        """Directions in the larger half; with an odd number, the middle one is in neither half."""
        return halves(self.pairs)[0]

    @cached_property
    def validated(self) -> list[str]:
        """Directions for which every row has a validation loss."""
        return [name for name in self.pairs if all(row.validation(name) is not None for row in self.rows)]

    def worst(self, row: Row, metric: str) -> str:
        """The direction with the highest validation loss, so that the choice does not depend on the test set.

        Without validation losses, the direction with the worst test score.
        """
        if self.validated:
            return max(self.validated, key=lambda name: row.validation(name) or 0.0)
        return min(self.pairs, key=lambda name: METRICS[metric].sign * fmean(row.scores(metric, name)))

    def members(self, row: Row, metric: str, group: str) -> list[str]:
        """The directions over which a group averages."""
        return {
            "mean": list(self.pairs),
            "worst": [self.worst(row, metric)],
            "low_resource": self.low_resource,
            "high_resource": self.high_resource,
        }[group]

    def score(self, row: Row, metric: str, names: Sequence[str]) -> Means | None:
        """Mean over directions, then over seeds; None if there are no directions."""
        if not names:
            return None
        by_run = [fmean(scores) for scores in zip(*(row.scores(metric, name) for name in names), strict=True)]
        return fmean(by_run), stdev(by_run) if len(by_run) > 1 else None

    @cached_property
    def noisy(self) -> list[str]:
        """Rows with larger seed variance than the others, over all directions and metrics."""
        return sorted(noisy_rows(self.resampled.labels, np.concatenate(list(self.resampled.observed.values())).T))

    def peers(self, row: Row) -> list[int]:
        """The runs that seed variance is estimated from: all except those of noisy rows.

        If this row or the reference is noisy, only the runs of these two.
        """
        pair = {row.name, self.reference.name}
        alone = not pair.isdisjoint(self.noisy)
        return [
            i for i, (name, _) in enumerate(self.resampled.labels) if name in pair or not (alone or name in self.noisy)
        ]

    @cached_property
    def contrasts(self) -> dict[str, Contrast]:
        """The contrast between each other row and the reference, among their peers."""
        return {
            row.name: contrast([self.resampled.labels[run] for run in self.peers(row)], row.name, self.reference.name)
            for row in self.rows[1:]
        }

    @cached_property
    def warnings(self) -> list[ComparisonWarning]:
        """Warnings about the comparison."""
        return list(warnings_about(self))

    def findings(self, row: Row, metric: str) -> Findings:
        """Differences between a row and the reference."""
        directions = {
            name: self._difference(row, metric, {each.name: [name] for each in self.rows}) for name in self.pairs
        }
        corrected = holm({name: each.p for name, each in directions.items()})
        significant = {n: METRICS[metric].sign * directions[n].difference for n in directions if corrected[n] < ALPHA}
        members = {group: {row.name: self.members(row, metric, group) for row in self.rows} for group in GROUPS}
        return Findings(
            directions,
            corrected,
            {group: self._difference(row, metric, names) for group, names in members.items() if names[row.name]},
            wins=[name for name, gain in significant.items() if gain > 0],
            losses=[name for name, gain in significant.items() if gain < 0],
        )

    def mean_difference(self, row: Row, metric: str) -> Difference:
        """The difference between a row and the reference in the mean over all directions."""
        return self._difference(row, metric, {each.name: list(self.pairs) for each in self.rows})

    def _difference(self, row: Row, metric: str, members: Mapping[str, Sequence[str]]) -> Difference:
        """Difference of means over directions; `members` gives the directions for each row."""
        peers = self.peers(row)
        names = [members[self.resampled.labels[run][0]] for run in peers]
        observed, sampled = (
            np.stack([self._mean(scores[metric], run, over) for run, over in zip(peers, names, strict=True)], axis=-1)
            for scores in (self.resampled.observed, self.resampled.sampled)
        )
        return difference(self.contrasts[row.name], observed, sampled)

    def _mean(self, scores: Numbers, run: int, names: Sequence[str]) -> Numbers:
        """Mean of a run over directions, from scores (..., directions, runs).

        They are added up one by one, as a thousand of them take too much memory to be copied.
        """
        places = sorted(self.resampled.places[name] for name in names)
        mean = np.zeros(scores.shape[:-2])
        for place in places:
            mean += scores[..., place, run] * (1 / len(places))
        return mean

    def as_json(self) -> dict[str, Any]:
        """The complete comparison, as used in files and reports."""
        resource = dict.fromkeys(self.low_resource, "low") | dict.fromkeys(self.high_resource, "high")
        return {
            "split": self.split,
            "reference": self.reference.name,
            "samples": self.resampled.samples,
            "worst_by": "validation" if self.validated else "test",
            "warnings": [warning.as_json() for warning in self.warnings],
            "signature": self.reference.runs[0].signature,
            "metrics": {name: METRICS[name].as_json() for name in self.metrics},
            "primary": primary_of(self.metrics),
            "directions": {n: {"pairs": pairs, "resource": resource.get(n)} for n, pairs in self.pairs.items()},
            "rows": [self._row_json(row) for row in self.rows],
        }

    def _row_json(self, row: Row) -> dict[str, Any]:
        tau, passes = row.runs[0].tau, row.passes
        return {
            "name": row.name,
            "strategy": row.runs[0].strategy,
            "tau": "inf" if tau == math.inf else tau,
            "seeds": row.seeds,
            "freedom": None if row is self.reference else self.contrasts[row.name].freedom,
            "runs": [_from_here(run.folder) for run in row.runs],
            "passes": {name: passes[name] for name in self.pairs},
            "cost": asdict(row.cost),
            "validation": {name: row.validation(name) for name in self.pairs},
            "scores": {metric: self._scores_json(row, metric) for metric in self.metrics},
            "difference": None
            if row is self.reference
            else {metric: _findings_json(self.findings(row, metric)) for metric in self.metrics},
        }

    def _scores_json(self, row: Row, metric: str) -> dict[str, Any]:
        groups = {group: _means_json(self.score(row, metric, self.members(row, metric, group))) for group in GROUPS}
        worst = {"direction": self.worst(row, metric), **(groups["worst"] or {})}
        directions = {name: _means_json(self.score(row, metric, [name])) for name in self.pairs}
        return {"directions": directions, **groups, "worst": worst}


def _from_here(folder: Path) -> str:
    """The path relative to the working folder, or just the name, so that no absolute path is published."""
    path = folder.absolute()
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.name


def _means_json(means: Means | None) -> dict[str, Any] | None:
    return None if means is None else {"mean": means[0], "sd": means[1]}


def _findings_json(found: Findings) -> dict[str, Any]:
    return {
        "directions": {name: {**asdict(d), "p_holm": found.p_holm[name]} for name, d in found.directions.items()},
        **{group: asdict(found.groups[group]) if group in found.groups else None for group in GROUPS},
        "wins": len(found.wins),
        "ties": found.ties,
        "losses": len(found.losses),
        "harmed": found.losses,
    }


def compare(runs: Sequence[ScoredRun], reference: str | None, split: str) -> Comparison:
    """Compare runs. The reference is the named row, else the first with proportional sampling, else the first.

    Raises ValueError if they were not scored on the same sentences.
    """
    by_row: dict[str, list[ScoredRun]] = {}
    for run in runs:
        by_row.setdefault(run.row, []).append(run)
    if not by_row:
        raise ValueError("no runs to compare")
    chosen = reference or next((n for n, each in by_row.items() if each[0].tau == 1), next(iter(by_row)))
    refuse_different_tests(runs)
    refuse_twins(runs)
    for name, each in by_row.items():
        if len({(run.strategy, run.tau) for run in each}) > 1:
            strategies = ", ".join(sorted({run.strategy for run in each}))
            raise ValueError(f"{name}: runs of different strategies ({strategies}); name them apart with NAME=RUN")
    rows = tuple(Row(name, tuple(sorted(each, key=lambda r: r.seed))) for name, each in by_row.items())
    comparison = Comparison(split, rows, ResampledScores(tuple(runs))).against(chosen)
    if not comparison.pairs:
        raise ValueError("these runs have no direction in common")
    if not comparison.metrics:
        raise ValueError("these runs have no metric in common; score all of them with the same settings")
    return comparison


def comparison_of(
    named: Sequence[tuple[str, Run]], reference: str | None, warn: Callable[[str], object]
) -> dict[str, Any] | None:
    """The comparison of runs on their test sets, as JSON; None if there is only one run, or one is not scored.

    Calls `warn` with each warning, or with the reason why there is no comparison.
    """
    if len(named) < 2:
        return None
    if reference is not None and reference not in (names := [name for name, _ in named]):
        raise ValueError(f"--reference {reference}: no such row; available: {', '.join(dict.fromkeys(names))}")
    try:
        runs = [read_scored_run(run, name, "test") for name, run in named]
        comparison = compare(runs, reference, "test")
    except ValueError as error:
        warn(f"no comparison: {error}")
        return None
    for warning in comparison.warnings:
        warn(warning.message)
    return comparison.as_json()
