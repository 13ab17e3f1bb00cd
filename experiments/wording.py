"""Formatting of numbers and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evenglot.comparison.bootstrap import Difference

Table = tuple[list[str], list[list[str]]]  # heading, rows


def written(found: Difference, digits: int, *, loud: bool) -> str:
    """A difference with its confidence interval; bold if `loud` and the interval excludes 0."""
    low, high = found.interval
    text = f"{signed(found.difference, digits)} [{signed(low, digits)}, {signed(high, digits)}]"
    return f"**{text}**" if loud and (low > 0 or high < 0) else text


def language(direction: str) -> str:
    """The language of a direction that is not English."""
    return next(part for part in direction.split("-") if part != "en")


def signed(value: float, digits: int) -> str:
    """A number with its sign, with a minus sign as wide as the plus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, with the first column left-aligned and the others right-aligned."""
    lines = [heading, [":--" if place == 0 else "--:" for place in range(len(heading))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
