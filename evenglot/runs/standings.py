"""The current state of every direction of a run, from its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evenglot.balance import Description, describe_settings
from evenglot.runs.events import (
    AverageEvent,
    BalanceEvent,
    ConfigEvent,
    DoneEvent,
    Event,
    IntervalEvent,
    ProbeEvent,
    Shares,
    StepEvent,
    ValidationEvent,
    Values,
    of_kind,
)


def best_validation(events: Sequence[Event]) -> ValidationEvent | AverageEvent | None:
    """The validation of the best model, which may be the average; the last validation if none is marked as best.

    None if there was no validation.
    """
    done = of_kind(events, DoneEvent)
    averages = [event for event in of_kind(events, AverageEvent) if event.loss]
    if averages and done and Path(done[-1].best_folder or "").name == "average":
        return averages[-1]
    validations = of_kind(events, ValidationEvent)
    best = [event for event in validations if event.best]
    chosen = best or validations
    return chosen[-1] if chosen else None


def aimed_at(event: IntervalEvent | BalanceEvent | StepEvent | ProbeEvent) -> Shares | None:
    """The strategy's q in an event. It differs from the sampled mixture if the strategy weights losses."""
    return event.target or (event.mixture if isinstance(event, IntervalEvent | BalanceEvent) else None)


def strategy_of(event: ConfigEvent) -> Description | None:
    """The description of the run's strategy; None if the strategy is unknown."""
    settings = event.config.get("balance", {})
    return describe_settings({**settings, "strategy": event.strategy or settings.get("strategy")})


def reweights(event: ConfigEvent) -> bool:
    """Whether q weights the losses of this run instead of being sampled."""
    description = strategy_of(event)
    return description is not None and description.needs.loss_weights


@dataclass
class Standing:
    """The current state of one direction."""

    pairs: int = 0
    p: float | None = None  # share of the data
    first_q: float | None = None
    q: float | None = None  # current share of the samples, or of the loss
    drawn: float = 0.0  # pairs sampled in earlier intervals
    drawing: int = 0  # pairs in the current interval
    train_loss: float | None = None
    valid_loss: float | None = None
    valid_loss_before: float | None = None

    @property
    def q_over_p(self) -> float:
        """Ratio of q to p; 1 if unknown."""
        return self.q / self.p if self.q and self.p else 1.0


@dataclass
class Standings:
    """The current state of every direction, from the events of a run in order."""

    directions: dict[str, Standing] = field(default_factory=dict)
    interval_start: int = 0
    interval_updates: int = 0
    step: int = 0
    reweights: bool = False  # q is a share of the loss, and sampling is proportional

    def take(self, events: Iterable[Event]) -> None:
        """Process these events."""
        for event in events:
            self.step = max(self.step, event.step)
            match event:
                case ConfigEvent():
                    self._config(event)
                case IntervalEvent():
                    self._interval(event)
                case StepEvent():
                    self._step(event)
                case BalanceEvent():
                    self._balance(event)
                case ValidationEvent():
                    self._validation(event)

    def __getitem__(self, name: str) -> Standing:
        return self.directions.setdefault(name, Standing())

    def passes(self, name: str) -> float | None:
        """Passes over the corpus so far, with the completed part of the current interval."""
        direction = self[name]
        return (direction.drawn + direction.drawing * self._part_done()) / direction.pairs if direction.pairs else None

    def _part_done(self) -> float:
        return min(1.0, (self.step - self.interval_start) / self.interval_updates) if self.interval_updates else 0.0

    def _config(self, event: ConfigEvent) -> None:
        self.reweights = reweights(event)
        for name, facts in event.directions.items():
            self[name].pairs, self[name].p = facts.pairs, facts.p
            self._mixture({name: facts.q})

    def _interval(self, event: IntervalEvent) -> None:
        part = self._part_done()  # of the previous interval, which a strategy may end early
        for direction in self.directions.values():
            direction.drawn, direction.drawing = direction.drawn + direction.drawing * part, 0
        self.interval_start, self.interval_updates = event.step, event.updates
        for name, pairs in event.pairs.items():
            self[name].drawing = pairs
        self._mixture(aimed_at(event))

    def _step(self, event: StepEvent) -> None:
        self._losses(event.losses)
        self._mixture(aimed_at(event))

    def _balance(self, event: BalanceEvent) -> None:
        """Take the mixture only within an interval: at its end, the next `interval` event has the sampled one."""
        if event.step < self.interval_start + self.interval_updates:
            self._mixture(aimed_at(event))

    def _mixture(self, mixture: Values | None) -> None:
        for name, share in (mixture or {}).items():
            direction = self[name]
            direction.q = share
            direction.first_q = share if direction.first_q is None else direction.first_q

    def _losses(self, losses: Values) -> None:
        for name, loss in losses.items():
            if loss is not None:  # None: not sampled since the last event
                self[name].train_loss = loss

    def _validation(self, event: ValidationEvent) -> None:
        for name, loss in event.loss.items():
            direction = self[name]
            direction.valid_loss, direction.valid_loss_before = loss, direction.valid_loss
