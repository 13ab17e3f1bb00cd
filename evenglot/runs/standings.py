"""Where every direction of a run stands, put together from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evenglot.balance import Description, describe_settings
from evenglot.runs.log import Event


def best_validation(events: Sequence[Event]) -> Event:
    """The losses of the model that is kept as the best, which may be the average; of the last, if none says so.

    Empty if there were none.
    """
    done = [event for event in events if event["event"] == "done"]
    averages = [event for event in events if event["event"] == "average" and event.get("loss")]
    if averages and done and Path(done[-1].get("best_folder") or "").name == "average":
        return averages[-1]
    validations = [event for event in events if event["event"] == "validation"]
    best = [event for event in validations if event.get("best")]
    return (best or validations or [{}])[-1]


def aimed_at(event: Event) -> Mapping[str, float] | None:
    """The mixture an event tells of: what the strategy aims at. Some draw the data as they are and weight losses."""
    return event.get("target") or event.get("mixture")


def strategy_of(config: Event) -> Description | None:
    """What the strategy of the run of a `config` event says of itself; None for one that this version does not know."""
    settings = config.get("config", {}).get("balance", {})
    return describe_settings({**settings, "strategy": config.get("strategy", settings.get("strategy"))})


def reweights(config: Event) -> bool:
    """Does q weight the losses of the run of a `config` event, instead of deciding what is sampled?"""
    description = strategy_of(config)
    return description is not None and description.needs.loss_weights


@dataclass
class Standing:
    """Where one direction stands."""

    pairs: int = 0
    p: float | None = None  # its share of the data
    first_q: float | None = None
    q: float | None = None  # its share of what is shown now, or of the loss
    drawn: float = 0.0  # pairs that were shown in finished intervals
    drawing: int = 0  # pairs in the running interval
    train_loss: float | None = None
    valid_loss: float | None = None
    valid_loss_before: float | None = None

    @property
    def q_over_p(self) -> float:
        """How much more it gets than its size asks for; 1 if not known."""
        return self.q / self.p if self.q and self.p else 1.0


@dataclass
class Standings:
    """Where every direction stands, put together from the events of a run in their order."""

    directions: dict[str, Standing] = field(default_factory=dict)
    interval_start: int = 0
    interval_updates: int = 0
    step: int = 0
    reweights: bool = False  # q is a share of the loss; what is shown is as the data are

    def take(self, events: Iterable[Event]) -> None:
        """Follow these events."""
        for event in events:
            self.step = max(self.step, event["step"])
            if follow := self._followers().get(event["event"]):
                follow(event)

    def _followers(self) -> dict[str, Callable[[Event], None]]:
        return {
            "config": self._config,
            "interval": self._interval,
            "step": self._step,
            "balance": self._balance,
            "validation": self._validation,
        }

    def __getitem__(self, name: str) -> Standing:
        return self.directions.setdefault(name, Standing())

    def passes(self, name: str) -> float | None:
        """How often its corpus was read so far, the running interval by the part of it that is done."""
        direction = self[name]
        return (direction.drawn + direction.drawing * self._part_done()) / direction.pairs if direction.pairs else None

    def _part_done(self) -> float:
        return min(1.0, (self.step - self.interval_start) / self.interval_updates) if self.interval_updates else 0.0

    def _config(self, event: Event) -> None:
        self.reweights = reweights(event)
        for name, facts in event.get("directions", {}).items():
            self[name].pairs, self[name].p = facts.get("pairs", 0), facts.get("p")
            self._mixture({name: facts.get("q")})

    def _interval(self, event: Event) -> None:
        part = self._part_done()  # of the interval before; a strategy may ask for a new one early
        for direction in self.directions.values():
            direction.drawn, direction.drawing = direction.drawn + direction.drawing * part, 0
        self.interval_start, self.interval_updates = event["step"], event.get("updates", 0)
        for name, pairs in event.get("pairs", {}).items():
            self[name].drawing = pairs
        self._mixture(aimed_at(event))

    def _step(self, event: Event) -> None:
        self._losses(event.get("losses"))
        self._mixture(aimed_at(event))

    def _balance(self, event: Event) -> None:
        """At the end of an interval the new mixture is a plan; the next interval, if any, says what is shown."""
        if event["step"] < self.interval_start + self.interval_updates:
            self._mixture(aimed_at(event))

    def _mixture(self, mixture: Mapping[str, float | None] | None) -> None:
        for name, share in (mixture or {}).items():
            direction = self[name]
            direction.q = share
            direction.first_q = share if direction.first_q is None else direction.first_q

    def _losses(self, losses: Mapping[str, float | None] | None) -> None:
        for name, loss in (losses or {}).items():
            if loss is not None:  # null: not shown since the last time
                self[name].train_loss = loss

    def _validation(self, event: Event) -> None:
        for name, loss in event.get("loss", {}).items():
            direction = self[name]
            direction.valid_loss, direction.valid_loss_before = loss, direction.valid_loss
