"""How many sentence pairs of each group an interval contains: the first half of the RESAMPLE step of chi-IBR."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenglot.robust.validate import distribution, number, vector

EPSILON = 1e-9  # so that a product that is a whole number in exact arithmetic is not pushed over by rounding

Counts = NDArray[np.int64]


def interval_counts(sizes: ArrayLike, q: ArrayLike) -> Counts:
    """ceil(n q_i) pairs of group i, n = all pairs: an interval as long as the data (the paper's Algorithm 1)."""
    size = vector(sizes, "sizes")
    return np.asarray(np.ceil(size.sum() * _shares(q, size.size) - EPSILON), dtype=np.int64)


def released_interval_counts(sizes: ArrayLike, q: ArrayLike, max_scale_up: float = 1.5) -> tuple[Counts, int]:
    """As the paper's released code: floor(V q_i) pairs of group i, and how many are left over to be drawn from q.

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
