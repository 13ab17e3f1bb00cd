"""The mixtures of a run, interval by interval, from its event log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from evenglot.runs.events import ConfigEvent, Event, IntervalEvent, ProbeEvent, Shares, StepEvent, of_kind
from evenglot.runs.history import LogNotStartedError
from evenglot.runs.standings import aimed_at, reweights
from evenglot.stages import Stage, average


def stages_of(events: Sequence[Event]) -> list[Stage]:
    """One stage per interval, up to the last update: the shares of the sentence pairs that were sampled.

    If the strategy weights losses instead of sampling, the shares are those that would have the same effect: its q, a
    share of the training loss and so of the target tokens, averaged over the updates of the interval and converted to
    pairs.
    """
    about = next(iter(of_kind(events, ConfigEvent)), None)
    intervals = of_kind(events, IntervalEvent)
    if about is None or not intervals:
        raise LogNotStartedError("no interval has begun yet; wait until training has started")
    last = max(event.step for event in events)
    stages = []
    for interval, end in zip(intervals, [*(event.step for event in intervals[1:]), last], strict=True):
        updates = end - interval.step  # fewer than planned if the run, or the strategy, ended it early
        if updates > 0:
            drawn = sum(_checked(interval.pairs, about).values())
            pairs = drawn * min(1.0, updates / interval.updates) if interval.updates else drawn
            stages.append(Stage(_shares(about, events, interval, end), pairs))
    if not stages:
        raise LogNotStartedError("the log has no updates yet; wait until training has started")
    return stages


def _shares(about: ConfigEvent, events: Sequence[Event], interval: IntervalEvent, end: int) -> dict[str, float]:
    if not reweights(about):
        return _normalised(interval.pairs)
    q = average(_targets(about, events, interval, end))
    facts = about.directions
    if not all(facts[name].target_tokens for name in q):  # an old log: assume sentences of the same mean length
        return q
    pairs = {name: q[name] * facts[name].pairs / facts[name].target_tokens for name in q}
    return _normalised(_checked(pairs, about))


def _targets(about: ConfigEvent, events: Sequence[Event], interval: IntervalEvent, end: int) -> list[Stage]:
    """The strategy's q in an interval, each with the number of updates for which it was used."""
    told = [event for event in events if isinstance(event, IntervalEvent | StepEvent | ProbeEvent)]
    changes: dict[int, Shares] = {}
    for event in told:
        if interval.step <= event.step < end and (shares := aimed_at(event)):
            changes[event.step] = _checked(shares, about)
    if not changes:
        raise ValueError(f"log.jsonl: has no shares for the interval that began at update {interval.step}")
    return [Stage(changes[step], following - step) for step, following in pairwise([*changes, end])]


def _checked(amounts: Shares, about: ConfigEvent) -> Shares:
    """These amounts; ValueError unless they are those of the directions of the run, and some are larger than 0."""
    if amounts.keys() != about.directions.keys():
        other = min(amounts.keys() ^ about.directions.keys())
        raise ValueError(f"log.jsonl: the shares of an interval and the directions of the run differ in {other}")
    if not 0 < sum(amounts.values()) < math.inf:
        raise ValueError("log.jsonl: the shares of an interval have no sum that they could be divided by")
    return amounts


def _normalised(amounts: Shares) -> dict[str, float]:
    total = sum(amounts.values())
    return {name: amount / total for name, amount in amounts.items()}
