"""Which sentence pairs the next interval contains, and in which order: the RESAMPLE step of chi-IBR.

Everything here is a pure function of sizes, shares, seed and position, the same on every rank of any number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenglot.robust.validate import distribution, number, vector
from evenglot.seeding import generator

EPSILON = 1e-9  # so that a product that is a whole number in exact arithmetic is not pushed over by rounding

Counts = NDArray[np.int64]
Indices = NDArray[np.int64]
DirectionIds = NDArray[np.int32]
Rule = Literal["cycle", "released"]
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, eq=False)
class Interval:
    """The pairs of interval `number`, shuffled over all directions: row k is pair[k] of names[direction[k]]."""

    names: tuple[str, ...]
    direction: DirectionIds
    pair: Indices
    seed: int
    number: int

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def counts(self) -> dict[str, int]:
        """How many pairs of each corpus were drawn."""
        counts = np.bincount(self.direction, minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))

    def take(self, values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """What belongs to each row, given what belongs to each pair of each corpus, for example its length."""
        columns = [values[name] for name in self.names]
        first = np.cumsum([0, *map(len, columns)])
        return np.asarray(np.concatenate(columns)[first[self.direction] + self.pair])


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
    """Draw pairs from corpora of the given sizes with shares q.

    `cycle`: as many pairs as the data have (or `pairs`). Each corpus has one random order, repeated without end, and an
    interval takes the next ones of it, from `drawn_before` on: how many pairs all earlier intervals took. So whatever
    q does, every pair is seen before any is seen again, and c pairs of a corpus of n use none more than ceil(c / n)
    times. (Orders that change from pass to pass would break the latter wherever an interval crosses into a new pass.)

    `released`: as the paper's released code. Length as in `released_interval_counts`; each corpus is drawn uniformly,
    with replacement if more pairs are asked for than it has, and without regard to earlier intervals.
    """
    names = tuple(sorted(sizes))
    size = vector(_in_order(sizes, names, "sizes"), "sizes").astype(np.int64)
    share = _shares(_in_order(q, names, "q"), size.size)
    starts = _in_order(drawn_before, names, "drawn_before") if drawn_before is not None else [0] * len(names)
    if (size[share > 0] < 1).any():
        raise ValueError(f"q: {names[int(np.argmax((share > 0) & (size < 1)))]!r} has a share, but no sentence pairs")
    if rule == "cycle":
        counts = interval_counts(size, share, pairs)
        drawn = [_next(*corpus, seed) for corpus in zip(names, size, starts, counts, strict=True)]
    elif rule == "released" and pairs is None:
        counts, left_over = released_interval_counts(size, share, max_scale_up)
        counts += generator(seed, "left over", interval).multinomial(left_over, share)
        drawn = [
            generator(seed, "resample", name, interval).choice(n, c, replace=bool(c > n))
            for name, n, c in zip(names, size, counts, strict=True)
        ]
    else:
        raise ValueError(f"rule: expected 'cycle', or 'released' without `pairs`; got {rule!r}, pairs={pairs}")
    order = generator(seed, "shuffle", interval).permutation(int(counts.sum()))
    direction = np.repeat(np.arange(len(names), dtype=np.int32), counts)
    return Interval(names, direction[order], np.concatenate(drawn)[order], seed, interval)


def all_pairs(sizes: Mapping[str, int]) -> Interval:
    """Every pair once, corpus by corpus: what a validation goes through."""
    names = tuple(sorted(sizes))
    direction = np.repeat(np.arange(len(names), dtype=np.int32), [sizes[name] for name in names])
    pair = np.concatenate([np.arange(sizes[name], dtype=np.int64) for name in names])
    return Interval(names, direction, pair, seed=0, number=0)


def interval_counts(sizes: ArrayLike, q: ArrayLike, pairs: int | None = None) -> Counts:
    """ceil(n q_i) pairs of corpus i, n = all pairs: an interval as long as the data (the paper's Algorithm 1).

    Or as long as is said: n = `pairs`.
    """
    size = vector(sizes, "sizes")
    length = size.sum() if pairs is None else number(pairs, "pairs", 1)
    return np.asarray(np.ceil(length * _shares(q, size.size) - EPSILON), dtype=np.int64)


def released_interval_counts(sizes: ArrayLike, q: ArrayLike, max_scale_up: float = 1.5) -> tuple[Counts, int]:
    """As the paper's released code: floor(V q_i) pairs of corpus i, and how many remain to be drawn from q.

    V is chosen so that the largest corpus is used exactly once, unless that makes more than max_scale_up n pairs.
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
    """Pairs start, ..., start + count - 1 of the endlessly repeated order of a corpus."""
    if not count:
        return np.empty(0, dtype=np.int64)
    return generator(seed, "draw", name).permutation(size)[(start + np.arange(count)) % size]
