"""Where two files of unequal length probably drift apart, from the lengths of their lines. NumPy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

CLEARER = 0.7  # lengths of pairs must differ by less than this part of what those of other lines do


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
