"""The figures in docs/reliability.md: every attack writes its own, between two marks that name it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"


def write_figures(attack: str, lines: list[str]) -> None:
    """Replace the figures of an attack by these, with the day."""
    begin, end = f"<!-- {attack}: begin -->", f"<!-- {attack}: end -->"
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(begin)[0], text.partition(end)[2]
    if len(before) == len(text):
        raise SystemExit(f"{PAGE}: has no place for the figures of {attack}")
    day = datetime.now(UTC).date().isoformat()
    PAGE.write_text("\n".join([before + begin, f"{day}.", "", *lines, end + after]), encoding="utf-8")
