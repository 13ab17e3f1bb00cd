"""The examples of every optimizer update, drawn with a balancer's mixture: what all integrations share. NumPy only.

    updates = BalancedUpdates(groups, balancer, rows=32)
    for update in range(1000):
        for indices in updates.micro_batches_of(update): ...      # train on these examples
        balancer.observe(loss_sums, counts)
        updates.done(update + 1)

The mixture changes when the first update of the next interval is asked for. A loader that reads ahead asks for it some
updates early; the losses of these count for the following interval. The result depends on how far the loader reads
ahead, but on nothing else, and `state_dict` restores it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenglot.balance import Balancer, OptionError
from evenglot.balance.description import LONG_LAG
from evenglot.batches.draw import Indices, draw
from evenglot.batches.pack import pack
from evenglot.robust.validate import number

BLOCK = 1 << 18  # groups of examples looked up at a time

PATIENCE = 200  # updates after which a loop that never reports one is told so; loaders may read dozens ahead


@dataclass(frozen=True)
class Draw:
    """All that determines the examples of an interval."""

    number: int  # of the interval
    first: int  # its first update
    shares: dict[str, float]
    drawn_before: dict[str, int]


@dataclass(frozen=True, eq=False)
class Planned:
    """An interval with its examples: micro-batch k of its update u has the examples batches[u * micro_batches + k]."""

    draw: Draw
    counts: dict[str, int]
    batches: Sequence[Indices]
    micro_batches: int

    @property
    def end(self) -> int:
        """The first update after this interval."""
        return self.draw.first + len(self.batches) // self.micro_batches

    def update(self, update: int) -> list[Indices]:
        """The micro-batches of an update of this interval."""
        start = (update - self.draw.first) * self.micro_batches
        return list(self.batches[start : start + self.micro_batches])


class BalancedUpdates:
    """Micro-batches of every update, as arrays of indices into a data set; the same on all ranks.

    `groups` has the group of every example. An update has `micro_batches` micro-batches, of `rows` examples each; or,
    if the `lengths` of the examples are given, of at most `tokens` tokens with padding. Lengths are one number for each
    example, or two (source and target). An interval has `interval_updates` updates (with `tokens`: about as many).
    """

    def __init__(
        self,
        groups: Sequence[str] | NDArray[Any],
        balancer: Balancer,
        *,
        rows: int | None = None,
        lengths: ArrayLike | None = None,
        tokens: int | None = None,
        micro_batches: int = 1,
        interval_updates: int = 100,
        seed: int = 0,
    ) -> None:
        self.balancer, self.seed = balancer, int(number(seed, "seed", 0))
        self.micro_batches = int(number(micro_batches, "micro_batches", 1))
        self.interval_updates = int(number(interval_updates, "interval_updates", 1))
        _check_lag(balancer, self.interval_updates)
        self.members = _members(groups, balancer)
        self.sizes = {name: len(rows) for name, rows in self.members.items()}
        self.batching = _batching(rows, lengths, tokens, self.members)
        self.trained = 0  # updates that the loop has reported as done
        self.asked = 0  # updates that the loader has asked for
        self._draws: list[Draw] = []  # of the intervals that are not over: one, or two while reading ahead
        self._plans: dict[int, Planned] = {}

    @property
    def per_epoch(self) -> int:
        """Number of updates that have as many examples as the data, when sampled in proportion to the data."""
        total = sum(self.sizes.values())
        shares = {name: size / total for name, size in self.sizes.items()}
        return max(1, math.ceil(total / self._rows_per_update(shares)))

    def divide(self, micro_batches: int) -> None:
        """Divide every update into so many micro-batches: for trainers that know it only when they start."""
        self.micro_batches = int(number(micro_batches, "micro_batches", 1))
        self._plans.clear()

    def micro_batches_of(self, update: int) -> list[Indices]:
        """The micro-batches of this update. Asking for the first one of an interval updates the mixture."""
        self.asked = max(self.asked, update + 1)
        for each in self._draws:
            planned = self._plan(each)
            if each.first <= update < planned.end:
                return planned.update(update)
        if self._draws and update < self._draws[0].first:
            raise IndexError(f"update {update} is over: {self.trained} updates are done")
        self._begin_interval()
        return self.micro_batches_of(update)

    def done(self, updates: int) -> None:
        """Report that this many updates have been trained, and their losses observed, since the start of the run."""
        self.trained = updates
        while len(self._draws) > 1 and self._draws[1].first <= updates:
            self._plans.pop(self._draws.pop(0).number, None)

    def seek(self) -> None:
        """Serve the updates after the last one that is done, although some of them were asked for already."""
        self.asked = self.trained

    def state_dict(self) -> dict[str, Any]:
        """The position, the intervals that are not over, and the state of the balancer; plain JSON values."""
        return {
            "updates": self.trained,
            "intervals": [asdict(each) for each in self._draws],
            "balancer": self.balancer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was called."""
        try:
            draws = [
                Draw(int(each["number"]), int(each["first"]), dict(each["shares"]), dict(each["drawn_before"]))
                for each in state["intervals"]
            ]
            trained = int(number(state["updates"], "state: updates", 0))
            balancer = state["balancer"]
        except (KeyError, TypeError, ValueError) as error:
            raise OptionError("state", f"not saved by state_dict: {error!r}") from error
        for each in draws:
            if set(each.shares) != set(self.sizes) or set(each.drawn_before) != set(self.sizes):
                raise OptionError("state", f"saved for other groups: {', '.join(sorted(each.shares))}")
        self.balancer.load_state_dict(balancer)
        self._draws, self._plans, self.trained, self.asked = draws, {}, trained, trained

    # ------------------------------------------------------------------------------------------------------- intervals

    def _begin_interval(self) -> None:
        """Update the mixture, except before the first interval, and draw the next interval from it."""
        if self.balancer.cadence != "never" and self.trained == 0 and self.asked > PATIENCE:
            raise OptionError(
                "balancer",
                f"{self.balancer.strategy}: {self.asked} updates were sampled and none was reported, so the mixture "
                "cannot change; after every optimizer step call GroupLoss.step(), or sampler.step(loss_sums, counts)",
            )
        if not self._draws:
            self._draws.append(Draw(0, 0, dict(self.balancer.mixture.sample), dict.fromkeys(self.sizes, 0)))
            return
        last = self._draws[-1]
        planned = self._plan(last)
        self.balancer.update(planned.counts)
        drawn = {name: last.drawn_before[name] + planned.counts[name] for name in self.sizes}
        self._draws.append(Draw(last.number + 1, planned.end, dict(self.balancer.mixture.sample), drawn))

    def _plan(self, each: Draw) -> Planned:
        if each.number not in self._plans:
            self._plans[each.number] = self._planned(each)
        return self._plans[each.number]

    def _planned(self, each: Draw) -> Planned:
        """Draw the examples of an interval and divide them into micro-batches."""
        pairs = max(self.micro_batches, round(self.interval_updates * self._rows_per_update(each.shares)))
        interval = draw(
            self.sizes,
            each.shares,
            seed=self.seed,
            interval=each.number,
            drawn_before=each.drawn_before,
            rule="exact",
            pairs=pairs,
        )
        examples = interval.take(lambda name, members: self.members[name][members])
        batches = self.batching.cut(examples, self.seed, each.number)
        return Planned(each, interval.counts, in_whole_updates(batches, self.micro_batches), self.micro_batches)

    def _rows_per_update(self, shares: Mapping[str, float]) -> float:
        """Expected number of examples of an update with this mixture."""
        return self.micro_batches * self.batching.rows(shares)


# ------------------------------------------------------------------------------------------------------------- batches


@dataclass(frozen=True)
class FixedSize:
    """Micro-batches of the same number of examples."""

    size: int

    def rows(self, shares: Mapping[str, float]) -> float:
        """Expected number of examples of a micro-batch with this mixture."""
        return self.size

    def cut(self, examples: Indices, seed: int, interval: int) -> list[Indices]:
        """Divide the examples of an interval into micro-batches."""
        return np.split(examples, range(self.size, len(examples), self.size))


@dataclass(frozen=True, eq=False)
class TokenBudget:
    """Micro-batches of similar lengths, of at most `tokens` tokens with padding."""

    tokens: int
    lengths: NDArray[np.int32]  # source and target

    widths: Mapping[str, float]  # mean of the longer side, by group

    def rows(self, shares: Mapping[str, float]) -> float:
        """Expected number of examples of a micro-batch with this mixture, not counting padding."""
        mean_width = sum(share * self.widths[name] for name, share in shares.items() if share > 0)
        return max(1.0, self.tokens / mean_width)

    def cut(self, examples: Indices, seed: int, interval: int) -> list[Indices]:
        """Divide the examples of an interval into micro-batches, in random order."""
        source, target = self.lengths[:, examples]
        plan = pack(source, target, budget=self.tokens, seed=seed, interval=interval)
        return [examples[plan.rows[i:j]] for i, j in zip(plan.starts, plan.stops, strict=True)]


def in_whole_updates(batches: Sequence[Indices], micro_batches: int) -> list[Indices]:
    """Halve the largest batches until their number is a multiple of `micro_batches`: a rank must not lack one.

    If no batch has two examples, the last batches are dropped instead.
    """
    whole = list(batches)
    while len(whole) % micro_batches:
        largest = max(range(len(whole)), key=lambda k: len(whole[k]))
        if len(whole[largest]) < 2:
            return whole[: len(whole) - len(whole) % micro_batches]
        first, second = np.array_split(whole[largest], 2)
        whole[largest] = first
        whole.append(second)
    return whole


def _check_lag(balancer: Balancer, interval_updates: int) -> None:
    """Refuse to sample a mixture that is much older than the current one."""
    samples_every_step = balancer.cadence == "step" and not balancer.needs.loss_weights
    if samples_every_step and interval_updates > LONG_LAG:
        raise OptionError(
            "interval_updates",
            f"{balancer.strategy} changes its mixture at every update; it would be applied up to "
            f"{interval_updates - 1:,} updates late: choose at most {LONG_LAG:,}",
        )


def _members(groups: Sequence[str] | NDArray[Any], balancer: Balancer) -> dict[str, Indices]:
    """The indices of the examples of each group of the balancer."""
    names = balancer.groups.names
    group_of = _group_ids(groups, names)
    order = np.argsort(group_of, kind="stable")  # linear: NumPy sorts 16-bit integers by radix
    parts = np.split(order, np.cumsum(np.bincount(group_of, minlength=len(names)))[:-1])
    members = dict(zip(names, parts, strict=True))
    for name, size in zip(names, balancer.groups.sizes, strict=True):
        if size > 0 and not len(members[name]):
            raise OptionError("groups", f"no example of {name!r}, which has a size of {size:g} in the balancer")
    return members


def _group_ids(groups: Sequence[str] | NDArray[Any], names: Sequence[str]) -> NDArray[np.signedinteger]:
    """The position in `names` of every example's group, found block by block: there may be many millions of them."""
    if isinstance(groups, np.ndarray) and groups.ndim != 1:
        raise OptionError("groups", f"expected the group of every example, got an array of shape {groups.shape}")
    place = {name: number for number, name in enumerate(names)}
    narrow = np.int16 if len(names) <= np.iinfo(np.int16).max else np.int32
    blocks = []
    for start in range(0, len(groups), BLOCK):
        block = groups[start : start + BLOCK]
        given = block.tolist() if isinstance(block, np.ndarray) else block
        try:
            blocks.append(np.fromiter(map(place.__getitem__, map(str, given)), dtype=narrow))
        except KeyError as error:
            known = ", ".join(sorted(names))
            raise OptionError("groups", f"{error} is not a group of the balancer; known: {known}") from None
    if not blocks:
        raise OptionError("groups", "expected the group of every example, got none")
    return np.concatenate(blocks)


def _batching(
    rows: int | None, lengths: ArrayLike | None, tokens: int | None, members: Mapping[str, Indices]
) -> FixedSize | TokenBudget:
    if rows is not None and tokens is None and lengths is None:
        return FixedSize(int(number(rows, "batch_size", 1)))
    if rows is None and tokens is not None and lengths is not None:
        both = _lengths(lengths, sum(map(len, members.values())))
        longer = both.max(axis=0)
        widths = {name: float(longer[rows].mean()) for name, rows in members.items() if len(rows)}
        return TokenBudget(int(number(tokens, "tokens", 1)), both, widths)
    raise OptionError("batch_size", "give either batch_size, or both lengths and tokens")


def _lengths(lengths: ArrayLike, examples: int) -> NDArray[np.int32]:
    """Lengths in two rows, source and target; one length for each example stands for both."""
    given = np.asarray(lengths)
    if given.ndim == 1:
        given = np.stack([given, given], axis=1)
    if given.shape != (examples, 2) or not np.issubdtype(given.dtype, np.integer) or given.min() < 1:
        raise OptionError("lengths", f"expected one or two whole numbers, 1 or more, for each of {examples} examples")
    return np.ascontiguousarray(given.T, dtype=np.int32)
