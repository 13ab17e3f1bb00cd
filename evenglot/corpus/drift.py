"""Where two files probably drift apart, from the lengths of their lines. NumPy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

CLEARER = 0.7  # lengths of pairs must differ by less than this part of what those of other lines do
LOOSER = (
    2.0  # shifted pairs differ in length 2 to 5 times as much as translations; parts of one corpus, up to 1.4 times
)
SHORTEST = 20  # pairs of a shifted part; fewer can be so by chance


def drift(left: ArrayLike, right: ArrayLike) -> int | None:
    """The number of lines before the files drift apart; None if their lengths do not tell.

    Translations of long sentences are long. So if all surplus lines of the longer file are in one place, the log
    lengths of the pairs before it agree best as they are, and those after it best with the longer file shifted by the
    surplus. The place with the smallest sum of differences is found in linear time.
    """
    one, other = (np.log1p(np.asarray(each, dtype=np.float64)) for each in (left, right))
    if not len(one) or not len(other) or len(one) == len(other):
        return None
    short, long = sorted((one - np.median(one), other - np.median(other)), key=len)
    surplus = len(long) - len(short)
    straight = np.concatenate([[0.0], np.cumsum(np.abs(short - long[: len(short)]))])
    shifted = np.concatenate([[0.0], np.cumsum(np.abs(short - long[surplus:]))])
    costs = straight + (shifted[-1] - shifted)  # of drifting apart before each line, or after the last one
    place = int(np.argmin(costs))
    by_chance = np.abs(short - long[::-1][: len(short)]).sum()
    return place if costs[place] < CLEARER * by_chance else None


def shifted_part(ratios: ArrayLike) -> tuple[int, int] | None:
    """The first pair and the end of the part of a corpus that is probably shifted by a line; None if there is none.

    A line is missing on one side and, somewhere later, another on the other side, so that the number of lines agrees.
    In between, the length ratios of the pairs (0: unknown) are farther from the median.
    """
    known = np.asarray(ratios, dtype=np.float64)
    known = np.where(known > 0, known, np.nan)
    if np.isnan(known).all():
        return None
    distance = np.nan_to_num(np.abs(np.log(known / np.nanmedian(known))))
    limit = distance.mean()
    for _ in range(2):  # the mean of all pairs is too high a limit where most of them are shifted
        first, end = _above(distance, limit)
        inside, around = distance[first:end], np.delete(distance, np.s_[first:end])
        if min(len(inside), len(around)) < SHORTEST:
            return None
        limit = (inside.mean() + around.mean()) / 2
    return (first, end) if inside.mean() > LOOSER * around.mean() else None


def _above(values: NDArray[np.float64], limit: float) -> tuple[int, int]:
    """The part, from and to, with the largest sum of what its values exceed the limit by."""
    sums = np.concatenate([[0.0], np.cumsum(values - limit)])
    end = int(np.argmax(sums - np.minimum.accumulate(sums)))
    return int(np.argmin(sums[: end + 1])), end
