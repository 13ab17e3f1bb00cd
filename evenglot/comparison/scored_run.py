"""A scored run as used in comparisons: sentence statistics, validation losses and training cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenglot.runs.events import (
    ConfigEvent,
    DoneEvent,
    Event,
    ReferenceCost,
    StepEvent,
    of_kind,
)
from evenglot.runs.log import read_log
from evenglot.runs.results import refuse_changed_results
from evenglot.runs.run import Run, RunError
from evenglot.runs.scores import are_outdated, read_scores_file, scored_with, scores_file, statistics_file
from evenglot.runs.standings import Standings, best_validation, strategy_of
from evenglot.scoring.metrics import METRICS
from evenglot.scoring.sentence_statistics import SentenceStatistics


@dataclass(frozen=True)
class Cost:
    """Training cost; that of the reference run, which the baselines come from, is counted separately."""

    updates: float
    tokens: float
    seconds: float
    reference_updates: float = 0
    reference_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class ScoredRun:
    """A scored run. Mappings are keyed by direction unless noted otherwise."""

    row: str  # name of its row in the comparison, shared by runs that differ only in their seed
    folder: Path
    seed: int
    strategy: str
    tau: float | None  # of a static temperature; 1: proportional sampling, inf: uniform
    pairs: dict[str, int]
    passes: dict[str, float]
    validation: dict[str, float]  # loss per character of the best checkpoint
    statistics: SentenceStatistics
    signature: dict[str, str]  # by metric
    made: dict[str, Any]  # decoding settings: beam, checkpoint, ...
    behind: bool  # the best checkpoint is newer than the scored one
    cost: Cost
    settings: Mapping[str, Any] = field(default_factory=dict)  # the configuration that it ended with, by section

    def score(self, metric: str, direction: str) -> float:
        """Score on the whole test set."""
        return METRICS[metric].total(self.statistics.counts[direction][metric])


def read_scored_run(run: Run, row: str, split: str) -> ScoredRun:
    """Read a run scored by `evenglot score` on a split."""
    refuse_changed_results(run.folder)
    if not run.log_file.exists():
        if run.folder.is_file():
            raise RunError(f"{run.folder}: is a file, expected a run folder")
        wrong = "not a run folder (no log.jsonl)" if run.folder.is_dir() else "no such run folder"
        raise RunError(f"{run.folder}: {wrong}; `evenglot train` creates one")
    events = read_log(run.log_file)
    about = next(iter(of_kind(events, ConfigEvent)), None)
    if about is None:
        raise RunError(f"{run.log_file}: has no config event yet; wait until training has started")
    statistics = statistics_file(run, split)
    made = scored_with(run, split)
    if made is None and not (scores_file(run, split).exists() and statistics.exists()):
        option = "" if split == "test" else f" --split {split}"
        raise RunError(f"{run.folder}: not scored on {split}; run `evenglot score {run.folder}{option}`")
    standings = Standings()
    standings.take(events)
    strategy = strategy_of(about)
    pairs = {name: facts.pairs for name, facts in about.directions.items()}
    best = best_validation(events)
    validation = (best and best.loss_per_character) or {}
    return ScoredRun(
        row=row,
        folder=run.folder,
        seed=_seed(run, about),
        strategy=about.strategy,
        tau=None if strategy is None else strategy.tau,
        pairs=pairs,
        passes={name: standings.passes(name) or 0.0 for name in pairs},
        validation={name: loss for name, loss in validation.items() if loss is not None},
        statistics=_statistics(statistics, pairs),
        signature=dict(read_scores_file(scores_file(run, split)).signature),
        made=made or {},
        behind=are_outdated(made or {}, events),
        cost=_cost(events, about),
        settings=run.settings(events),
    )


def _seed(run: Run, about: ConfigEvent) -> int:
    seed = about.config.get("seed")
    if type(seed) is not int:
        raise RunError(f"{run.log_file}: its configuration has no seed; is it the log of a run?")
    return seed


def _statistics(file: Path, pairs: Mapping[str, int]) -> SentenceStatistics:
    found = SentenceStatistics.load(file)
    if others := sorted(found.counts.keys() - pairs.keys()):
        raise RunError(
            f"{file}: has scores of {others[0]}, which the run was not trained on; run `evenglot score` again"
        )
    return found


def _cost(events: Sequence[Event], about: ConfigEvent) -> Cost:
    """Cost according to the last event that records the time; also valid for an interrupted run."""
    timed = [event for event in events if isinstance(event, StepEvent | DoneEvent)]
    last = timed[-1] if timed else StepEvent(step=0)
    reference = about.reference or ReferenceCost()
    return Cost(
        updates=last.step,
        tokens=last.tokens or 0,
        seconds=last.seconds or 0.0,
        reference_updates=reference.updates or 0,
        reference_seconds=reference.seconds or 0.0,
    )
