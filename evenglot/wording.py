"""Format lists, durations and numbers for messages and tables."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable, Sequence

MOST_LISTED = 5  # maximum number of names in a message


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown word: the closest known word, or all known words."""
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(words)}"


def some(names: Iterable[str]) -> str:
    """The first few names, and the number of others."""
    all_names = list(names)
    more = f" and {len(all_names) - MOST_LISTED} more" if len(all_names) > MOST_LISTED else ""
    return ", ".join(all_names[:MOST_LISTED]) + more


def listed(words: Sequence[str]) -> str:
    """'a, b and c'."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def duration(seconds: float) -> str:
    """A rounded duration: '45 s', '8 min', '2 h 51 min', '3 days 4 h'."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(minutes / 60)
    return f"{hours // 24} days {hours % 24} h"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """'1 run', '1,200 runs', '2 processes'."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def number(value: float | None, decimals: int = 2) -> str:
    """A number for a table cell; '-' for None."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def percent(share: float | None) -> str:
    """A share in percent, without the percent sign; two decimals below 1 %, otherwise one."""
    if share is None:
        return "-"
    if 0 < share < 0.00005:
        return "<0.01"
    return f"{100 * share:.1f}" if share >= 0.01 or share == 0 else f"{100 * share:.2f}"


MESSAGE = re.compile(r"evenglot(?: \(process \d+\))?: (?!another process failed)(.*)")  # as cli/failure.py prints it


def last_message(output: str) -> str:
    """What a command of ours said last about its failure; also under torchrun, which adds a report of its own."""
    lines = output.strip().splitlines()
    messages = [found[1] for found in map(MESSAGE.match, lines) if found]
    return (messages or lines or ["no output"])[-1]


def one_line(error: BaseException, most: int = 300) -> str:
    """What an error of a library says, on one line: whole if it is short. Its class, if it says nothing."""
    return textwrap.shorten(str(error), most, placeholder=" ...") or type(error).__name__
