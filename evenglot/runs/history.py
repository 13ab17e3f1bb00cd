"""A run over time, put together from its log: what pictures and pages are drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenglot.runs.log import Event
from evenglot.runs.standings import Standings, aimed_at, reweights, strategy_of

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Series:
    """Numbers of every direction after so many updates; None where one is not known."""

    steps: tuple[int, ...]
    values: dict[str, tuple[float | None, ...]]

    def __bool__(self) -> bool:
        return bool(self.steps)

    @staticmethod
    def of(points: Iterable[tuple[int, Values]], names: Sequence[str]) -> Series:
        """From (updates, numbers by direction), in their order; of several after the same update, the last counts."""
        by_step = dict(points)
        return Series(tuple(by_step), {name: tuple(values.get(name) for values in by_step.values()) for name in names})


@dataclass(frozen=True)
class History:
    """Everything in it is keyed by direction, the largest corpus first."""

    pairs: dict[str, int]
    p: dict[str, float]
    mixture: Series  # q: what the strategy aims at, from the first update on
    running_losses: Series  # what a strategy went by at the end of each interval
    baseline: dict[str, float]  # empty: it went by none
    train_losses: Series
    valid_losses: Series
    valid_losses_per_character: Series
    chrf: Series  # of greedy validation translations, if there were any
    passes: dict[str, float]  # over each corpus so far
    interval_starts: tuple[int, ...]  # updates before each interval
    warnings: tuple[tuple[int, str], ...]  # (updates, message)
    about: Event  # the `config` event
    done: Event | None  # the `done` event; None: it is still running, or was killed

    @property
    def names(self) -> list[str]:
        """The directions."""
        return list(self.pairs)

    @property
    def follows_losses(self) -> bool:
        """Does the strategy go by running losses? Of others, the log has the means of intervals."""
        description = strategy_of(self.about)
        return description is not None and description.needs.losses is not None

    @property
    def reweights(self) -> bool:
        """Is the mixture what losses are weighed by? Then the data were shown as they are."""
        return reweights(self.about)


def history(events: Sequence[Event]) -> History:
    """The story of a run; ValueError if there is none yet."""
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        by_kind.setdefault(event["event"], []).append(event)
    if "config" not in by_kind:
        raise ValueError("the log does not say yet what is trained; wait until training has begun")
    about = by_kind["config"][0]
    facts = about["directions"]
    names = sorted(facts, key=lambda name: (-facts[name]["pairs"], name))
    balances = by_kind.get("balance", [])
    baseline = balances[-1]["baseline"] if balances else {}
    standings = Standings()
    standings.take(events)

    def series(kind: str, key: str) -> Series:
        return Series.of(((e["step"], e[key]) for e in by_kind.get(kind, []) if e.get(key)), names)

    return History(
        pairs={name: facts[name]["pairs"] for name in names},
        p={name: facts[name]["p"] for name in names},
        mixture=Series.of(_mixtures(events), names),
        running_losses=series("balance", "losses"),
        baseline={name: baseline[name] for name in names if baseline.get(name) is not None},
        train_losses=series("step", "losses"),
        valid_losses=series("validation", "loss"),
        valid_losses_per_character=series("validation", "loss_per_character"),
        chrf=series("validation", "chrf"),
        passes={name: standings.passes(name) or 0.0 for name in names},
        interval_starts=tuple(event["step"] for event in by_kind.get("interval", [])),
        warnings=tuple((event["step"], event["message"]) for event in by_kind.get("warning", [])),
        about=about,
        done=by_kind["done"][-1] if "done" in by_kind else None,
    )


def _mixtures(events: Sequence[Event]) -> Iterable[tuple[int, dict[str, Any]]]:
    """An interval begins with a mixture; some strategies move within one, and say so with the step."""
    for event in events:
        moves = event["event"] == "interval" or (event["event"] in ("step", "probe") and "target" in event)
        if moves and (shares := aimed_at(event)):
            yield event["step"], dict(shares)
