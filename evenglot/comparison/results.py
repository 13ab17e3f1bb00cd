"""What a comparison knows of a run: its scores and what each sentence adds to them, its losses, and what it cost."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenglot.runs.events import ConfigEvent, DoneEvent, Event, ReferenceCost, StepEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.run import Run, RunError
from evenglot.runs.scores import scored_with, scores_file, statistics_file
from evenglot.runs.standings import Standings, best_validation
from evenglot.scoring.statistics import METRICS, Statistics

SEED_FOLDER = re.compile(r"seed-\d+")


@dataclass(frozen=True)
class Cost:
    """What training took; that of the run which its baselines come from is counted beside it."""

    updates: float
    tokens: float
    seconds: float
    reference_updates: float = 0
    reference_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Result:
    """One scored run; everything about languages is keyed by direction."""

    row: str  # the strategy, in the words of whoever compares; runs that differ in their seed only share it
    folder: Path
    seed: int
    strategy: str
    tau: float | None  # of a static temperature; 1: the data as they are, inf: uniform
    pairs: dict[str, int]
    passes: dict[str, float]
    validation: dict[str, float]  # loss of a character, of the best model
    statistics: Statistics
    signature: dict[str, str]
    made: dict[str, Any]  # how the translations were: beam, checkpoint, ...
    behind: bool  # a later checkpoint is the best by now
    cost: Cost

    def score(self, metric: str, direction: str) -> float:
        """On the whole test set."""
        return float(METRICS[metric].score(self.statistics.counts[direction][metric].sum(axis=0, dtype=float)))


def read_result(run: Run, row: str, split: str) -> Result:
    """Read a run that `evenglot score` has scored on a split."""
    if not run.log_file.exists():
        if run.folder.is_file():
            raise RunError(f"{run.folder}: a file, not a run; a grid file stands alone")
        wrong = "not a run (it has no log.jsonl)" if run.folder.is_dir() else "there is no such run or grid file"
        raise RunError(f"{run.folder}: {wrong}; `evenglot train` makes a run")
    events = read_log(run.log_file)
    about = next(iter(of_kind(events, ConfigEvent)), None)
    if about is None:
        raise RunError(f"{run.log_file}: says nothing about the run yet")
    statistics = statistics_file(run, split)
    made = scored_with(run, split)
    if made is None and not (scores_file(run, split).exists() and statistics.exists()):
        option = "" if split == "test" else f" --split {split}"
        raise RunError(f"{run.folder}: not scored on {split}; run `evenglot score {run.folder}{option}`")
    standings = Standings()
    standings.take(events)
    pairs = {name: facts.pairs for name, facts in about.directions.items()}
    best = best_validation(events)
    validation = (best and best.loss_per_character) or {}
    return Result(
        row=row,
        folder=run.folder,
        seed=about.config["seed"],
        strategy=about.strategy,
        tau=_tau(about.config["balance"]),
        pairs=pairs,
        passes={name: standings.passes(name) or 0.0 for name in pairs},
        validation={name: loss for name, loss in validation.items() if loss is not None},
        statistics=Statistics.load(statistics),
        signature=_signature(scores_file(run, split)),
        made=made or {},
        behind=_behind(made or {}, events),
        cost=_cost(events, about),
    )


def _behind(made: dict[str, Any], events: Sequence[Event]) -> bool:
    """Was the run trained further since it was scored?"""
    best = [event.best_step for event in of_kind(events, DoneEvent)]
    return made.get("which") == "best" and bool(best) and made.get("step") != best[-1]


def _signature(file: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))["signature"]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file}: cannot be read; run `evenglot score` again") from error
    return found


def named_runs(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """Rows and folders from 'NAME=RUN' or 'RUN', whose name is what sets its path apart, without a last 'seed-1'."""
    split = [(name if equals else "", Path(path if equals else name)) for name, equals, path in _parted(arguments)]
    unnamed = [path.resolve() for name, path in split if not name]
    rows = [path.parent if SEED_FOLDER.fullmatch(path.name) else path for path in unnamed]
    common = 0
    if len(set(rows)) > 1:
        parts = list(zip(*(row.parts for row in rows), strict=False))
        different = next((depth for depth, names in enumerate(parts) if len(set(names)) > 1), len(parts))
        common = min(different, *(len(row.parts) - 1 for row in rows))  # one may lie inside another
    short = iter(["/".join(row.parts[common:]) if common else row.name for row in rows])
    return [(name or next(short), path) for name, path in split]


def _parted(arguments: Sequence[str]) -> list[tuple[str, str, str]]:
    """A folder whose name has an equals sign is a folder."""
    return [(text, "", "") if Path(text).exists() else text.partition("=") for text in arguments]


def _tau(balance: dict[str, Any]) -> float | None:
    """The log cannot say `inf`, and says null."""
    static = {"proportional": 1.0, "uniform": math.inf, "temperature": float(balance.get("tau") or math.inf)}
    return static.get(balance["strategy"])


def _cost(events: Sequence[Event], about: ConfigEvent) -> Cost:
    """From the last event that carries the time; a run that was killed has cost what it had by then."""
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
