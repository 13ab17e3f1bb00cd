"""The figures in docs/reliability.md: every attack writes its own, between two marks that name it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"


def write(attack: str, text: str) -> None:
    """Replace the figures of an attack by these."""
    begin, end = f"<!-- {attack}: begin -->", f"<!-- {attack}: end -->"
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(begin)[0], page.partition(end)[2]
    if len(before) == len(page):
        raise SystemExit(f"{PAGE}: has no place for the figures of {attack}")
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def write_figures(attack: str, lines: Iterable[str]) -> None:
    """The same, with the day."""
    write(attack, "\n".join([f"{_today()}.", "", *lines]))


class Rows:
    """A table in the page whose rows are replaced one by one: an attack of many takes hours, and may be stopped."""

    def __init__(self, attack: str, head: str, order: Sequence[str]) -> None:
        self.attack, self.head, self.order = attack, head, order
        lines = PAGE.read_text(encoding="utf-8").partition(f"<!-- {attack}: begin -->")[2].partition("<!--")[0]
        named = {line.split("|")[1].strip(): line for line in lines.splitlines() if line.startswith("| ")}
        self.rows = {name: line for name, line in named.items() if name in order}

    def chosen(self, of: Sequence[str] | None) -> list[str]:
        """The names that are wanted, in the order of the table; default: all."""
        return [name for name in self.order if of is None or name in of]

    def add(self, name: str, counts: Iterable[int | str]) -> None:
        """Write a row with the day, and print it."""
        cells = [*(f"{count:,}" if isinstance(count, int) else count for count in counts), _today()]
        self.rows[name] = f"| {name} | {' | '.join(cells)} |"
        print(self.rows[name], flush=True)
        line = "|---" + "|--:" * (self.head.count("|") - 1) + "|"
        rows = [self.rows[each] for each in self.order if each in self.rows]
        write(self.attack, "\n".join([f"{self.head} day |", line, *rows]))


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
