"""Lists and numbers as people write them, in messages and tables."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MOST_LISTED = 5  # names in one error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word that is nearest to a mistaken one, or all of them."""
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(words)}"


def some(names: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    all_names = list(names)
    more = f" and {len(all_names) - MOST_LISTED} more" if len(all_names) > MOST_LISTED else ""
    return ", ".join(all_names[:MOST_LISTED]) + more


def listed(words: Sequence[str]) -> str:
    """'a, b and c'."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def duration(seconds: float) -> str:
    """A time in words, as exact as a person cares for: '45 s', '8 min', '2 h 51 min', '3 days 4 h'."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(minutes / 60)
    return f"{hours // 24} days {hours % 24} h"


def number(value: float | None, decimals: int = 2) -> str:
    """A number for a cell; a dash where there is none."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def percent(share: float | None) -> str:
    """A share of 1 in percent, without the sign; small ones get another digit."""
    if share is None:
        return "-"
    if 0 < share < 0.00005:
        return "<0.01"
    return f"{100 * share:.1f}" if share >= 0.01 or share == 0 else f"{100 * share:.2f}"
