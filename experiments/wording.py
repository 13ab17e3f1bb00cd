"""How numbers are written in the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evenglot.comparison.bootstrap import Difference

Table = tuple[list[str], list[list[str]]]  # heading, rows


def written(found: Difference, digits: int, *, loud: bool) -> str:
    """With its interval; bold, if a claim may rest on it, where that excludes 0."""
    low, high = found.interval
    text = f"{signed(found.difference, digits)} [{signed(low, digits)}, {signed(high, digits)}]"
    return f"**{text}**" if loud and (low > 0 or high < 0) else text


def language(direction: str) -> str:
    """The one that is not English."""
    return next(part for part in direction.split("-") if part != "en")


def signed(value: float, digits: int) -> str:
    """With a sign that is as wide as the other."""
    return f"{value:+.{digits}f}".replace("-", "−")


def markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    lines = [heading, [":--" if place == 0 else "--:" for place in range(len(heading))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
