"""Strategies side by side: scores of every direction, and their differences to a reference, with significance."""

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
from evenglot.scoring.metrics import METRICS, primary_of
from evenglot.scoring.summary import halves, largest_first

Means = tuple[float, float | None]  # over seeds: mean, and standard deviation if there are several
GROUPS = ("mean", "worst", "low_resource", "high_resource")


@dataclass(frozen=True, eq=False)
class Row:
    """One strategy: its runs, which differ in their seed."""

    name: str
    runs: tuple[ScoredRun, ...]

    @property
    def seeds(self) -> list[int]:
        """In the order of the runs."""
        return [run.seed for run in self.runs]

    def scores(self, metric: str, direction: str) -> list[float]:
        """The score of each run."""
        return [run.score(metric, direction) for run in self.runs]

    def validation(self, direction: str) -> float | None:
        """Mean loss of a character of the validation set."""
        losses = [run.validation[direction] for run in self.runs if direction in run.validation]
        return fmean(losses) if losses else None

    @property
    def passes(self) -> dict[str, float]:
        """Over each corpus, mean of the runs."""
        common = set.intersection(*(set(run.passes) for run in self.runs))
        return {name: fmean(r.passes[name] for r in self.runs) for name in common}

    @property
    def cost(self) -> Cost:
        """Mean of the runs."""
        costs = [asdict(run.cost) for run in self.runs]
        return Cost(**{key: fmean(cost[key] for cost in costs) for key in costs[0]})


@dataclass(frozen=True)
class Findings:
    """One strategy against the reference, in one metric."""

    directions: dict[str, Difference]
    p_holm: dict[str, float]
    groups: dict[str, Difference]
    wins: list[str]
    losses: list[str]  # harmed: significantly worse

    @property
    def ties(self) -> int:
        """Directions of which nothing can be said."""
        return len(self.directions) - len(self.wins) - len(self.losses)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows, the first of which is the reference, and the scores of their runs; made by `compare`."""

    split: str
    rows: tuple[Row, ...]
    resampled: ResampledScores

    def against(self, reference: str) -> Comparison:
        """The same runs beside another row."""
        if reference not in (names := [row.name for row in self.rows]):
            raise ValueError(f"--reference {reference}: there is no such row; there are {', '.join(names)}")
        rows = sorted(self.rows, key=lambda row: row.name != reference)
        return Comparison(self.split, tuple(rows), self.resampled)

    @property
    def reference(self) -> Row:
        """What the others are compared to."""
        return self.rows[0]

    @cached_property
    def pairs(self) -> dict[str, int]:
        """Training pairs of the directions that all runs have, largest first."""
        pairs = self.reference.runs[0].pairs
        return {name: pairs[name] for name in largest_first({name: pairs[name] for name in self.resampled.directions})}

    @property
    def metrics(self) -> list[str]:
        """Those that can be compared."""
        return self.resampled.metrics

    @cached_property
    def low_resource(self) -> list[str]:
        """The smaller half of the corpora."""
        return halves(self.pairs)[1]

    @cached_property
    def high_resource(self) -> list[str]:
        """The larger half; the middle one of an odd number is in neither."""
        return halves(self.pairs)[0]

    @cached_property
    def validated(self) -> list[str]:
        """The directions of which every row has a validation loss."""
        return [name for name in self.pairs if all(row.validation(name) is not None for row in self.rows)]

    def worst(self, row: Row, metric: str) -> str:
        """The direction with the largest validation loss; chosen there, so that the test set need not choose.

        If there are no such losses, by their scores.
        """
        if self.validated:
            return max(self.validated, key=lambda name: row.validation(name) or 0.0)
        return min(self.pairs, key=lambda name: METRICS[metric].sign * fmean(row.scores(metric, name)))

    def members(self, row: Row, metric: str, group: str) -> list[str]:
        """The directions whose mean a group is."""
        return {
            "mean": list(self.pairs),
            "worst": [self.worst(row, metric)],
            "low_resource": self.low_resource,
            "high_resource": self.high_resource,
        }[group]

    def score(self, row: Row, metric: str, names: Sequence[str]) -> Means | None:
        """Mean of directions, then of seeds; None for no directions."""
        if not names:
            return None
        by_run = [fmean(scores) for scores in zip(*(row.scores(metric, name) for name in names), strict=True)]
        return fmean(by_run), stdev(by_run) if len(by_run) > 1 else None

    @cached_property
    def noisy(self) -> list[str]:
        """Rows whose runs differ more from seed to seed than those of the others, in all directions and metrics."""
        return sorted(noisy_rows(self.resampled.labels, np.concatenate(list(self.resampled.observed.values())).T))

    def peers(self, row: Row) -> list[int]:
        """The runs that tell how noisy training is: all but those of noisy rows; of a noisy row, its own only."""
        pair = {row.name, self.reference.name}
        alone = not pair.isdisjoint(self.noisy)
        return [
            i for i, (name, _) in enumerate(self.resampled.labels) if name in pair or not (alone or name in self.noisy)
        ]

    @cached_property
    def contrasts(self) -> dict[str, Contrast]:
        """Of every other row and the reference, among their peers."""
        return {
            row.name: contrast([self.resampled.labels[run] for run in self.peers(row)], row.name, self.reference.name)
            for row in self.rows[1:]
        }

    @cached_property
    def warnings(self) -> list[ComparisonWarning]:
        """What makes it unfair, or less certain than it looks."""
        return list(warnings_about(self))

    def findings(self, row: Row, metric: str) -> Findings:
        """A row against the reference."""
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

    def _difference(self, row: Row, metric: str, members: Mapping[str, Sequence[str]]) -> Difference:
        """Of means over directions, which are given for each row."""
        wanted = [name for name in self.resampled.directions if any(name in names for names in members.values())]
        places = np.array([[self.resampled.directions.index(name)] for name in wanted])
        peers = self.peers(row)
        chosen = np.array([[name in members[self.resampled.labels[run][0]] for run in peers] for name in wanted])
        shares = chosen / chosen.sum(axis=0)
        observed, sampled = (
            np.where(chosen, scores[metric][..., places, peers] * shares, 0.0).sum(axis=-2)
            for scores in (self.resampled.observed, self.resampled.sampled)
        )
        return difference(self.contrasts[row.name], observed, sampled)

    def as_json(self) -> dict[str, Any]:
        """All of it, for files and pages."""
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
        tau = row.runs[0].tau
        return {
            "name": row.name,
            "strategy": row.runs[0].strategy,
            "tau": "inf" if tau == math.inf else tau,
            "seeds": row.seeds,
            "freedom": None if row is self.reference else self.contrasts[row.name].freedom,
            "runs": [_from_here(run.folder) for run in row.runs],
            "passes": {name: row.passes[name] for name in self.pairs},
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
    """A path that tells nothing about the machine: from the working folder, or the name alone."""
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
    """Put runs side by side. The reference is the named row, else the first with proportional sampling, else the first.

    ValueError if they were not scored on the same sentences.
    """
    by_row: dict[str, list[ScoredRun]] = {}
    for run in runs:
        by_row.setdefault(run.row, []).append(run)
    if not by_row:
        raise ValueError("there is nothing to compare")
    chosen = reference or next((n for n, each in by_row.items() if each[0].tau == 1), next(iter(by_row)))
    refuse_different_tests(runs)
    refuse_twins(runs)
    for name, each in by_row.items():
        if len({(run.strategy, run.tau) for run in each}) > 1:
            strategies = ", ".join(sorted({run.strategy for run in each}))
            raise ValueError(f"{name}: runs of different strategies ({strategies}); give them names: NAME=RUN")
    rows = tuple(Row(name, tuple(sorted(each, key=lambda r: r.seed))) for name, each in by_row.items())
    comparison = Comparison(split, rows, ResampledScores(tuple(runs))).against(chosen)
    if not comparison.pairs:
        raise ValueError("these runs have no direction in common")
    if not comparison.metrics:
        raise ValueError("these runs have no score in common; score them all in the same way")
    return comparison


def comparison_of(
    named: Sequence[tuple[str, Run]], reference: str | None, warn: Callable[[str], object]
) -> dict[str, Any] | None:
    """The comparison of runs on their test sets, as JSON; None if there is only one, or one is not scored.

    `warn` is told the warnings, or why there is no comparison.
    """
    if len(named) < 2:
        return None
    if reference is not None and reference not in (names := [name for name, _ in named]):
        raise ValueError(f"--reference {reference}: there is no such row; there are {', '.join(dict.fromkeys(names))}")
    try:
        runs = [read_scored_run(run, name, "test") for name, run in named]
        comparison = compare(runs, reference, "test")
    except ValueError as error:
        warn(f"without a comparison: {error}")
        return None
    for warning in comparison.warnings:
        warn(warning.message)
    return comparison.as_json()
