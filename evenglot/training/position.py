"""Where a run stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from evenglot.training.step import Observed


@dataclass
class Position:
    """All that a checkpoint keeps beside tensors and the balancer's state.

    Nothing random is in it: what is drawn, the order of batches and the dropout of an update follow from the seed and
    from these numbers, so a resume is a seek.
    """

    drawn_before: dict[str, int]  # pairs of each direction in earlier intervals
    since_log: Observed  # what was observed since the last `step` event
    in_interval: Observed  # and in the running interval
    step: int = 0  # updates done
    interval: int = 0  # intervals done
    update: int = 0  # updates done in the running interval
    shares: dict[str, float] | None = None  # from which it was drawn; None: it has not been drawn yet
    tokens: int = 0  # target tokens seen
    validated: int = -1  # the step of the last validation ...
    score: float | None = None  # ... and its result
    best_score: float | None = None
    disappointments: int = 0  # validations since the best

    @staticmethod
    def start(names: list[str]) -> Position:
        """Before the first update."""
        return Position(dict.fromkeys(names, 0), Observed.nothing(len(names)), Observed.nothing(len(names)))

    @staticmethod
    def of(state: Mapping[str, Any]) -> Position:
        """From what `state` made; checkpoints keep other things beside it."""
        own = {each.name: state[each.name] for each in fields(Position) if each.name in state}
        observed = {name: Observed.of(state[name]) for name in ("since_log", "in_interval")}
        return Position(**{**own, **observed})

    def state(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**vars(self), "since_log": self.since_log.rows(), "in_interval": self.in_interval.rows()}
