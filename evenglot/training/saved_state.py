"""The state in a checkpoint that training resumes from, checked before anything is restored from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenglot.records import read_record
from evenglot.runs.checkpoint import Checkpoint, DamagedCheckpointError

_LEAST_0: dict[str, float] = {"least": 0}


@dataclass(frozen=True, kw_only=True)
class _Position:
    """What `Position.state` returned, and the policy's checkpoints. Older versions lack what has a default."""

    drawn_before: Mapping[str, int] = field(metadata=_LEAST_0)
    since_log: Sequence[Sequence[float]]
    in_interval: Sequence[Sequence[float]]
    interval_updates: int | None = field(default=None, metadata=_LEAST_0)
    step: int = field(metadata=_LEAST_0)
    interval: int = field(metadata=_LEAST_0)
    update: int = field(metadata=_LEAST_0)
    shares: Mapping[str, float] | None = field(default=None, metadata=_LEAST_0)
    tokens: int = field(default=0, metadata=_LEAST_0)
    validated: int = field(default=-1, metadata={"least": -1})
    score: float | None = None
    best_score: float | None = None
    disappointments: int = field(default=0, metadata=_LEAST_0)
    regular: Sequence[int] = field(default=(), metadata=_LEAST_0)
    replaced: Sequence[int] = field(default=(), metadata=_LEAST_0)  # checkpoints that this one replaces


@dataclass(frozen=True, kw_only=True)
class _Record:
    """What `Record.state` returned."""

    log: int = field(metadata=_LEAST_0)
    log_hash: str | None = None
    seconds: float = field(metadata=_LEAST_0)
    seconds_since_log: float = field(metadata=_LEAST_0)
    warned: Sequence[str]
    lowest: Mapping[str, float]
    train_loss: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class _State:
    """What training puts into a checkpoint, besides the description of the model."""

    position: _Position
    record: _Record
    balancer: Mapping[str, Any]
    scaler: Mapping[str, Any]
    store: str
    init: str | None = None


def refuse_invalid(state: Mapping[str, Any], found: Checkpoint, names: Sequence[str]) -> None:
    """Raise DamagedCheckpointError if training of these directions cannot continue with this state."""
    try:
        position = read_record(_State, state).position
        for keyed in (position.drawn_before, position.shares or dict.fromkeys(names)):
            if set(keyed) != set(names):
                raise ValueError("`position`: is about other directions")
        for rows in (position.since_log, position.in_interval):
            if [len(row) for row in rows] != [len(names)] * 3:
                raise ValueError("`position`: has losses of other directions")
        if position.step != found.step:
            raise ValueError(f"`position`: is at update {position.step}")
    except ValueError as error:
        raise DamagedCheckpointError(
            f"{found.folder}: not a state to resume from: {error}; restore a backup or start a new run"
        ) from error
