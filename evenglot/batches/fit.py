"""How many pairs to draw for an interval of a given number of updates."""

from __future__ import annotations

from collections.abc import Callable

PROPORTIONAL = 6  # steps in proportion before bisection; on real corpora two or three suffice


def fit(wanted: int, guess: int, count: Callable[[int], int], most: int | None = None) -> int:
    """The number of pairs, at most `most`, that fill `wanted` batches; `count(pairs)` says how many they fill.

    The result depends on nothing but the arguments, so a resumed run finds the same. If no number of pairs fills
    exactly `wanted` batches (several pairs may come at once, as counts are rounded up for each corpus), it is the
    largest number found that fills fewer, or else 1.
    """
    low, high = 0, None if most is None else most + 1  # too few, too many
    pairs, steps = guess, 0
    while high is None or high - low > 1:
        pairs = max(low + 1, pairs if high is None else min(pairs, high - 1))
        batches = count(pairs)
        if batches == wanted:
            return pairs
        if batches < wanted:
            low = pairs
        else:
            high = pairs
        steps += 1
        if steps < PROPORTIONAL:
            pairs = round(pairs * (wanted - 0.5) / (batches - 0.5))  # on average, the last batch is half full
        else:
            pairs = 2 * low if high is None else (low + high) // 2
    return max(low, 1)
