"""The position of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from evenglot.training.step import Observed


@dataclass
class Position:
    """Counters that, with the seed, determine how training continues. Stored in checkpoints.

    There is no random state: samples, the order of batches and the dropout of an update are functions of the seed and
    these numbers, so resuming is a seek.
    """

    drawn_before: dict[str, int]  # pairs per direction drawn in earlier intervals
    since_log: Observed  # losses since the last `step` event
    in_interval: Observed  # losses in the current interval
    interval_updates: int | None = (
        None  # `Config.interval_updates`; None in runs begun before there were such intervals
    )
    step: int = 0  # updates done
    interval: int = 0  # intervals done
    update: int = 0  # updates done in the current interval
    shares: dict[str, float] | None = None  # mixture of the current interval; None: not drawn yet
    tokens: int = 0  # target tokens trained on
    validated: int = -1  # step of the last validation
    score: float | None = None  # its result
    best_score: float | None = None
    disappointments: int = 0  # validations since the best one

    @staticmethod
    def start(names: list[str], interval_updates: int | None = None) -> Position:
        """Before the first update."""
        nothing = Observed.nothing(len(names))
        return Position(dict.fromkeys(names, 0), nothing, nothing, interval_updates)

    @staticmethod
    def of(state: Mapping[str, Any]) -> Position:
        """Inverse of `state`; unknown keys are ignored."""
        own = {each.name: state[each.name] for each in fields(Position) if each.name in state}
        observed = {name: Observed.of(state[name]) for name in ("since_log", "in_interval")}
        return Position(**{**own, **observed})

    def state(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {**vars(self), "since_log": self.since_log.rows(), "in_interval": self.in_interval.rows()}
