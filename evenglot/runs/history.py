"""Time series of a run, extracted from its event log for figures and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenglot.runs.events import (
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
    WarningEvent,
    of_kind,
)
from evenglot.runs.standings import Standings, aimed_at, reweights, strategy_of


class LogNotStartedError(ValueError):
    """The log has no `config` event yet."""


@dataclass(frozen=True)
class Series:
    """Values per direction after `steps` updates; None where unknown."""

    steps: tuple[int, ...]
    values: dict[str, tuple[float | None, ...]]

    def __bool__(self) -> bool:
        return bool(self.steps)

    @staticmethod
    def of(points: Iterable[tuple[int, Values]], names: Sequence[str]) -> Series:
        """From (updates, values per direction) in order; of several points at the same update, the last is used."""
        by_step = dict(points)
        return Series(tuple(by_step), {name: tuple(values.get(name) for values in by_step.values()) for name in names})


@dataclass(frozen=True)
class History:
    """The history of a run. Mappings are keyed by direction, largest corpus first."""

    pairs: dict[str, int]
    p: dict[str, float]
    mixture: Series  # the strategy's q, from the first update on
    running_losses: Series  # losses used by the strategy at the end of each interval
    baseline: dict[str, float]  # empty: none used
    train_losses: Series
    valid_losses: Series
    valid_losses_per_character: Series
    chrf: Series  # of greedy translations of validation text; may be empty
    passes: dict[str, float]  # passes over each corpus so far
    interval_starts: tuple[int, ...]  # number of updates before each interval
    warnings: tuple[WarningEvent, ...]
    about: ConfigEvent
    done: DoneEvent | None  # None: the run is still in progress or was killed
    unit: str = "updates"  # unit of `Series.steps`

    @property
    def names(self) -> list[str]:
        """Directions, largest corpus first."""
        return list(self.pairs)

    @property
    def follows_losses(self) -> bool:
        """Whether the strategy uses running losses. If not, `running_losses` has the means of each interval."""
        description = strategy_of(self.about)
        return description is not None and description.needs.losses is not None

    @property
    def reweights(self) -> bool:
        """Whether q weights the losses. Then sampling is proportional."""
        return reweights(self.about)


def history(events: Sequence[Event], unit: str = "updates") -> History:
    """The history of a run; LogNotStartedError if there is no `config` event yet."""
    configs, done = of_kind(events, ConfigEvent), of_kind(events, DoneEvent)
    if not configs:
        raise LogNotStartedError("the log has no `config` event yet; wait until training has started")
    about = configs[0]
    if not about.directions:
        raise ValueError("the `config` event of the log has no directions")
    facts = about.directions
    names = sorted(facts, key=lambda name: (-facts[name].pairs, name))
    balances, validations = of_kind(events, BalanceEvent), of_kind(events, ValidationEvent)
    baseline = balances[-1].baseline if balances else {}
    standings = Standings()
    standings.take(events)

    def series(points: Iterable[tuple[int, Values | None]]) -> Series:
        return Series.of(((step, values) for step, values in points if values), names)

    return History(
        pairs={name: facts[name].pairs for name in names},
        p={name: facts[name].p for name in names},
        mixture=Series.of(_mixtures(events), names),
        running_losses=series((event.step, event.losses) for event in balances),
        baseline={name: loss for name in names if (loss := baseline.get(name)) is not None},
        train_losses=series((event.step, event.losses) for event in of_kind(events, StepEvent)),
        valid_losses=series((event.step, event.loss) for event in validations),
        valid_losses_per_character=series((event.step, event.loss_per_character) for event in validations),
        chrf=series((event.step, event.chrf) for event in validations),
        passes={name: standings.passes(name) or 0.0 for name in names},
        interval_starts=tuple(event.step for event in of_kind(events, IntervalEvent)),
        warnings=tuple(of_kind(events, WarningEvent)),
        about=about,
        done=done[-1] if done else None,
        unit=unit,
    )


def _mixtures(events: Sequence[Event]) -> Iterable[tuple[int, Shares]]:
    """q at the start of each interval and, for strategies that change it within one, in `step` and `probe` events."""
    for event in events:
        if isinstance(event, IntervalEvent | StepEvent | ProbeEvent) and (shares := aimed_at(event)):
            yield event.step, shares
