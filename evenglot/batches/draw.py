"""Sample the sentence pairs of an interval and their order: the RESAMPLE step of chi-IBR.

All functions are pure functions of sizes, shares, seed and position, with the same result on every rank and for any
number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenglot.robust.validate import distribution, number, vector
from evenglot.seeding import generator

EPSILON = 1e-9  # keeps rounding errors from changing ceil and floor of exact integers

ORDER_BYTES = 1 << 29  # for remembering the random orders of corpora: 4 bytes a pair

Counts = NDArray[np.int64]
Indices = NDArray[np.int64]
DirectionIds = NDArray[np.int32]
Rule = Literal["cycle", "exact", "released"]
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, eq=False)
class Interval:
    """The pairs of interval `number`, shuffled across directions: row k is pair[k] of names[direction[k]]."""

    names: tuple[str, ...]
    direction: DirectionIds
    pair: Indices
    seed: int
    number: int

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def counts(self) -> dict[str, int]:
        """Number of pairs sampled from each corpus."""
        counts = np.bincount(self.direction, minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))

    def take(self, find: Callable[[str, Indices], NDArray[Any]]) -> NDArray[Any]:
        """One value per row, such as a length, where find(name, pairs) has those of some pairs of a corpus.

        Values can be arrays; their last axis is that of the pairs. The cost is that of the interval, not of the data.
        """
        narrow = np.min_scalar_type(len(self.names))  # NumPy sorts 8-bit and 16-bit integers in linear time
        order = np.argsort(self.direction.astype(narrow), kind="stable")
        stops = np.cumsum(np.bincount(self.direction, minlength=len(self.names)))[:-1]
        parts = [
            find(name, self.pair[rows])
            for name, rows in zip(self.names, np.split(order, stops), strict=True)
            if len(rows)
        ]
        sorted_values = np.concatenate(parts, axis=-1)
        values = np.empty_like(sorted_values)
        values[..., order] = sorted_values
        return values


def draw(
    sizes: Mapping[str, int],
    q: Mapping[str, float],
    *,
    seed: int,
    interval: int,
    drawn_before: Mapping[str, int] | None = None,
    rule: Rule = "cycle",
    pairs: int | None = None,
    max_scale_up: float = 1.5,
) -> Interval:
    """Sample pairs with shares q from corpora of the given sizes.

    `cycle`: as many pairs as the data have, or `pairs`. Each corpus has one random permutation, which is repeated
    cyclically; an interval takes the next pairs of it, starting at `drawn_before`, the number of pairs sampled in all
    previous intervals. For any sequence of mixtures, every pair is sampled once before any is repeated, and c pairs
    from a corpus of n contain none more than ceil(c / n) times. (Reshuffling after each pass would violate the latter
    in intervals that span two passes.)

    `exact`: the same with exactly `pairs` pairs, not some more because every share is rounded up. For short intervals.

    `released`: as in the paper's released code. Length as in `released_interval_counts`; each corpus is sampled
    uniformly, with replacement if the count exceeds its size, independently of previous intervals.
    """
    names = tuple(sorted(sizes))
    size = vector(_in_order(sizes, names, "sizes"), "sizes").astype(np.int64)
    share = _shares(_in_order(q, names, "q"), size.size)
    starts = _in_order(drawn_before, names, "drawn_before") if drawn_before is not None else [0] * len(names)
    if (size[share > 0] < 1).any():
        raise ValueError(f"q: {names[int(np.argmax((share > 0) & (size < 1)))]!r} has a share but no sentence pairs")
    if rule in ("cycle", "exact"):
        counts = interval_counts(size, share, pairs)
        if rule == "exact":
            counts = exact_counts(int(size.sum()) if pairs is None else pairs, share, seed, interval)
        drawn = [_next(*corpus, seed) for corpus in zip(names, size, starts, counts, strict=True)]
    elif rule == "released" and pairs is None:
        counts, left_over = released_interval_counts(size, share, max_scale_up)
        counts += generator(seed, "left over", interval).multinomial(left_over, share)
        drawn = [
            generator(seed, "resample", name, interval).choice(n, c, replace=bool(c > n))
            for name, n, c in zip(names, size, counts, strict=True)
        ]
    else:
        raise ValueError(f"rule: expected 'cycle', 'exact', or 'released' without pairs; got {rule!r}, pairs={pairs}")
    order = generator(seed, "shuffle", interval).permutation(int(counts.sum()))
    direction = np.repeat(np.arange(len(names), dtype=np.int32), counts)
    return Interval(names, direction[order], np.concatenate(drawn)[order], seed, interval)


def all_pairs(sizes: Mapping[str, int]) -> Interval:
    """Every pair once, corpus by corpus, as used for validation."""
    names = tuple(sorted(sizes))
    direction = np.repeat(np.arange(len(names), dtype=np.int32), [sizes[name] for name in names])
    pair = np.concatenate([np.arange(sizes[name], dtype=np.int64) for name in names])
    return Interval(names, direction, pair, seed=0, number=0)


def interval_counts(sizes: ArrayLike, q: ArrayLike, pairs: int | None = None) -> Counts:
    """ceil(n q_i) pairs of corpus i, where n is the size of the data (the paper's Algorithm 1), or `pairs` if given."""
    size = vector(sizes, "sizes")
    length = size.sum() if pairs is None else number(pairs, "pairs", 1)
    return np.asarray(np.ceil(length * _shares(q, size.size) - EPSILON), dtype=np.int64)


def exact_counts(pairs: int, q: ArrayLike, seed: int, interval: int) -> Counts:
    """Counts that sum to `pairs`; that of corpus i is pairs * q_i, rounded up or down at random, right on average."""
    number(pairs, "pairs", 1)
    share = _shares(q, np.size(q))
    stops = pairs * np.cumsum(share)
    stops[np.flatnonzero(share)[-1] :] = pairs
    chance = generator(seed, "round", interval).random()
    return np.asarray(np.diff(np.minimum(np.floor(stops + chance), pairs), prepend=0), dtype=np.int64)


def released_interval_counts(sizes: ArrayLike, q: ArrayLike, max_scale_up: float = 1.5) -> tuple[Counts, int]:
    """As in the paper's released code: floor(V q_i) pairs of corpus i, and the number left to sample from q.

    V is chosen so that the largest corpus is used exactly once, but is at most max_scale_up n.
    """
    size = vector(sizes, "sizes")
    share = _shares(q, size.size)
    total, largest = size.sum(), int(np.argmax(size))
    longest = total * number(max_scale_up, "max_scale_up", 0)
    once = size[largest] / share[largest] if share[largest] > 0 else np.inf
    length = int(np.floor(min(once, longest) + EPSILON))
    counts = np.floor(length * share + EPSILON).astype(np.int64)
    return counts, length - int(counts.sum())


def _shares(q: ArrayLike, size: int) -> NDArray[np.float64]:
    vector(q, "q", size)
    return distribution(q, "q")


def _in_order(values: Mapping[str, Number], names: tuple[str, ...], argument: str) -> list[Number]:
    if set(values) != set(names):
        raise ValueError(f"{argument}: expected the directions {', '.join(names)}; got {', '.join(sorted(values))}")
    return [values[name] for name in names]


def _next(name: str, size: int, start: int, count: int, seed: int) -> Indices:
    """Pairs start, ..., start + count - 1 of the cyclically repeated permutation of a corpus."""
    if not count:
        return np.empty(0, dtype=np.int64)
    order = _orders.find((seed, name, int(size)))
    return order[(start + np.arange(count)) % size].astype(np.int64)


class RecentOrders:
    """The random orders of corpora, so that a short interval does not cost as much as its corpora.

    The least recently used ones are forgotten when all together exceed `limit` bytes, and made again when needed.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self._orders: dict[tuple[int, str, int], NDArray[Any]] = {}  # the latest last

    def find(self, corpus: tuple[int, str, int]) -> NDArray[Any]:
        """The order of the corpus with this seed, name and number of pairs, in the smallest type that holds it."""
        order = self._orders.pop(corpus, None)
        if order is None:
            seed, name, pairs = corpus
            order = generator(seed, "draw", name).permutation(pairs).astype(np.min_scalar_type(pairs))
            self.size += order.nbytes
        self._orders[corpus] = order
        while self.size > self.limit:
            self.size -= self._orders.pop(next(iter(self._orders))).nbytes
        return order


_orders = RecentOrders(ORDER_BYTES)
