"""The events of a run's log as typed records, and their JSON form on disk.

One frozen dataclass for each kind of event; `KINDS` maps the `event` key of a line to its class. The `config` event,
the first of a log, carries the version of the format (`format`; logs without it are version 1). `parse` reads a JSON
object and `to_json` makes one. Additions of later versions are tolerated: unknown keys are kept in `Event.extra`, and
an unknown event becomes an `UnknownEvent`; both are written back unchanged. Unknown keys of nested records are
dropped.

Floats that are not finite are null in JSON, so numbers that may overflow are `float | None`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from evenglot.records import require, shapes_of

FORMAT = 2  # 1: the `config` event has no `format`, and warnings have no `kind` and no `direction`

SECTIONS = {"data", "clean", "vocabulary", "store", "balance", "batches", "model", "train"}  # of `config`

Shares = Mapping[str, float]
Losses = Mapping[str, float]
Values = Mapping[str, float | None]  # None: not observed, or not finite
_LEAST_0: dict[str, Any] = {"least": 0}  # metadata of a field whose numbers are not negative
_OMIT_NONE = {"omit_none": True}  # metadata of a field that is omitted from the JSON object if it is None


@dataclass(frozen=True, kw_only=True)
class Event:
    """Fields of all events. Mappings in subclasses are keyed by direction unless stated otherwise."""

    step: int = field(metadata=_LEAST_0)  # updates done so far
    time: str = ""  # ISO 8601; the log fills it in
    extra: Mapping[str, Any] = field(default_factory=dict)  # unknown keys


@dataclass(frozen=True, kw_only=True)
class UnknownEvent(Event):
    """An event of an unknown kind; its content is in `extra`."""

    event: str


@dataclass(frozen=True, kw_only=True)
class DirectionFacts:
    """Size and planned sampling of a direction before the first update."""

    pairs: int = field(metadata=_LEAST_0)
    target_tokens: int = field(default=0, metadata=_LEAST_0)
    p: float = field(metadata=_LEAST_0)  # share of the data
    q: float | None = field(default=None, metadata=_LEAST_0)  # share of the first mixture
    passes_per_interval: float | None = None
    total_passes: float | None = None


@dataclass(frozen=True, kw_only=True)
class ReferenceCost:
    """Cost of the run that the baselines come from."""

    updates: float | None = field(default=None, metadata=_OMIT_NONE)
    seconds: float | None = field(default=None, metadata=_OMIT_NONE)


@dataclass(frozen=True, kw_only=True)
class ConfigEvent(Event):
    """First event of a log: configuration, versions, data and hardware of the run."""

    format: int = FORMAT  # of the log that the event was read from
    config: Mapping[str, Any] = field(default_factory=dict)
    evenglot: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    strategy: str = ""
    directions: Mapping[str, DirectionFacts]
    reference: ReferenceCost | None = None
    parameters: int = 0
    trained: int | None = field(default=None, metadata=_OMIT_NONE)  # of the parameters, if not all
    device: str = ""
    precision: str = ""
    processes: int = 1
    parallel: str = "flat"  # how the processes shared an update
    threads: int = 1
    tokens_per_update: int = 0
    updates: int = 0
    updates_per_interval: int = 0
    seconds_estimated: float | None = None


@dataclass(frozen=True, kw_only=True)
class ResumeEvent(Event):
    """A run was resumed from a checkpoint; `changed` lists the configuration keys changed since it started."""

    processes: int = 1
    parallel: str = "flat"  # how the processes shared an update
    threads: int = 1
    changed: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class IntervalEvent(Event):
    """An interval begins: `mixture` is sampled; `target` is the strategy's q, which may weight losses instead.

    `lag` only for strategies that change q at every step and sample from it: in the last update of the interval, q is
    this many updates older than it would be if it were sampled for every update.
    """

    interval: int = 0
    mixture: Shares = field(default_factory=dict, metadata=_LEAST_0)
    target: Shares = field(default_factory=dict, metadata=_LEAST_0)
    pairs: Mapping[str, int] = field(default_factory=dict, metadata=_LEAST_0)
    updates: int = field(default=0, metadata=_LEAST_0)
    tokens: int = 0
    padding: float | None = None
    lag: int | None = field(default=None, metadata=_OMIT_NONE)


@dataclass(frozen=True, kw_only=True)
class StepEvent(Event):
    """The updates since the last such event; `target` only for strategies that change q at every step."""

    loss: float | None = None
    losses: Values = field(default_factory=dict)
    learning_rate: float | None = None
    gradient_norm: float | None = None
    tokens_per_second: float | None = None
    tokens: int = 0
    seconds: float = 0.0
    interval: int = 0
    total_updates: int | None = None
    target: Shares | None = field(default=None, metadata=_OMIT_NONE | _LEAST_0)


@dataclass(frozen=True, kw_only=True)
class ProbeEvent(Event):
    """Gradients were compared; `cosines` are keyed by group."""

    seconds: float = 0.0
    cosines: Values = field(default_factory=dict)
    target: Shares | None = field(default=None, metadata=_OMIT_NONE | _LEAST_0)


@dataclass(frozen=True, kw_only=True)
class BalanceEvent(Event):
    """An interval is over: the losses the strategy used, what was sampled, and the next mixture."""

    interval: int = 0
    mixture: Shares = field(default_factory=dict, metadata=_LEAST_0)
    target: Shares = field(default_factory=dict, metadata=_LEAST_0)
    losses: Values = field(default_factory=dict)
    interval_losses: Values = field(default_factory=dict)
    baseline: Values = field(default_factory=dict)
    realised: Shares = field(default_factory=dict, metadata=_LEAST_0)
    passes: Shares = field(default_factory=dict, metadata=_LEAST_0)
    changed: bool = True


@dataclass(frozen=True, kw_only=True)
class ValidationEvent(Event):
    """The model was validated on the directions that have validation text."""

    loss: Losses = field(default_factory=dict)
    loss_per_character: Losses = field(default_factory=dict)
    chrf: Mapping[str, float] | None = field(default=None, metadata=_OMIT_NONE)
    pooled: float | None = None
    macro: float | None = None
    worst: float | None = None
    score: float | None = None  # the one of these three that selects the best model
    best: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AverageEvent(Event):
    """The last checkpoints were averaged; losses only if there is validation text."""

    steps: Sequence[int] = ()
    score: float | None = None
    loss: Values | None = field(default=None, metadata=_OMIT_NONE)
    loss_per_character: Values | None = field(default=None, metadata=_OMIT_NONE)


@dataclass(frozen=True, kw_only=True)
class CheckpointEvent(Event):
    """A checkpoint was written to `folder`, relative to the run folder."""

    folder: str = ""
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class WarningEvent(Event):
    """A warning, at most one per run for each kind and direction; programs use `kind`, people read `message`."""

    kind: str = "other"
    direction: str | None = field(default=None, metadata=_OMIT_NONE)
    message: str


@dataclass(frozen=True, kw_only=True)
class DoneEvent(Event):
    """Training ended; `reason` is the setting that ended it, or `stopped`."""

    reason: str = ""
    seconds: float | None = None
    tokens: int | None = None
    best_step: int | None = None
    best_score: float | None = None
    best_folder: str | None = None
    gpu_memory: int | None = field(default=None, metadata=_OMIT_NONE)  # peak of the first process, in bytes

    @property
    def stopped(self) -> bool:
        """Whether the run was interrupted and can be resumed."""
        return self.reason == "stopped"


KINDS: dict[str, type[Event]] = {
    "config": ConfigEvent,
    "resume": ResumeEvent,
    "interval": IntervalEvent,
    "step": StepEvent,
    "probe": ProbeEvent,
    "balance": BalanceEvent,
    "validation": ValidationEvent,
    "average": AverageEvent,
    "checkpoint": CheckpointEvent,
    "warning": WarningEvent,
    "done": DoneEvent,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
E = TypeVar("E", bound=Event)


def of_kind(events: Iterable[Event], kind: type[E]) -> list[E]:
    """The events of one kind, in order."""
    return [event for event in events if isinstance(event, kind)]


# ------------------------------------------------------------------------------------------------- writing


def to_json(event: Event) -> dict[str, Any]:
    """The JSON object of an event, as in `log.jsonl`."""
    name = event.event if isinstance(event, UnknownEvent) else _NAMES[type(event)]
    return {"event": name, **_object(event), **event.extra}


def _object(record: Any) -> dict[str, Any]:
    """The fields of a record in order; nested records become objects too."""
    found = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if each.name in ("event", "extra") or (value is None and "omit_none" in each.metadata):
            continue
        found[each.name] = _value(value)
    return found


def _value(value: Any) -> Any:
    if is_dataclass(value):
        return _object(value)
    return {key: _value(item) for key, item in value.items()} if isinstance(value, Mapping) else value


# ------------------------------------------------------------------------------------------------- reading


def parse(content: object, version: int = FORMAT) -> Event:
    """Parse a JSON object from a log of this format version; ValueError if it has the wrong shape."""
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, got {type(content).__name__}")
    name = content.get("event")
    if not isinstance(name, str):
        raise ValueError("`event`: expected the name of an event")
    if version < FORMAT:
        content = migrate(name, content)
    found = _read(KINDS.get(name, UnknownEvent), content)
    if isinstance(found, ConfigEvent):
        _refuse_invalid(found)
    return found


def _refuse_invalid(found: ConfigEvent) -> None:
    if not 1 <= found.format <= FORMAT:
        raise ValueError(f"`format`: version {found.format} is not supported (at most {FORMAT}); upgrade evenglot")
    for name in SECTIONS & found.config.keys():
        if not isinstance(found.config[name], dict):
            raise ValueError(f"`config.{name}`: expected dict, got {type(found.config[name]).__name__}")


def migrate(name: str, content: dict[str, Any]) -> dict[str, Any]:
    """Convert an event of an older log to the current format.

    A run started by an older version and resumed by this one has lines of both formats, so a migration must not change
    lines of the current format.
    """
    if name == "config" and "format" not in content:
        return {**content, "format": 1}
    if name == "warning" and "kind" not in content:
        return {**content, **_kind_from_message(content.get("message"))}
    return content


def _kind_from_message(message: object) -> dict[str, str]:
    """Warnings of version 1 have only a message. Two kinds name a direction; the patterns match the old messages."""
    for kind, pattern in (
        ("passes", r"(\S+): its [\d,]+ pairs will have been shown \d+ times"),
        ("overfitting", r"(\S+): validation loss \S+ has risen from"),
    ):
        if isinstance(message, str) and (found := re.match(pattern, message)):
            return {"kind": kind, "direction": found[1]}
    return {"kind": "other"}


def _read(kind: type[E], content: Mapping[str, Any]) -> E:
    shapes = shapes_of(kind)  # type: ignore[arg-type]  # mypy considers a class given by a TypeVar unhashable
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in content.items():
        if (shape := shapes.get(key)) is not None:
            known[key] = shape.read(key, value)
        elif key != "event":
            extra[key] = value
    require(shapes, known)
    return kind(extra=extra, **known)
