"""The figures in docs/reliability.md: every attack writes its own, between two marks that name it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(os.environ.get("TORTURE_PAGE", Path(__file__).parent.parent / "docs" / "reliability.md"))
TRIED = ("tried", "requests", "killed before one", "within a write", "killed again")  # columns that count attempts
FAILED = ("failed", "differences", "lost", "mixed up")
PROMISES = (  # what, the section that tries it, and the tables with the figures
    ("A killed training run, resumed, computes the same bits", "killed-runs", ("kills",)),
    ("A killed command, started again, ends the same and leaves nothing over", "crash-points", ("crashes",)),
    ("On a full or read-only disk, a command names a path and damages nothing", "full-and-read-only-disks", ("full",)),
    ("A damaged file is named, or does not matter", "damaged-files", ("damage",)),
    (
        "A file or state that is well-formed but wrong is refused in one line, or read; nothing hangs",
        "changed-content",
        ("figures", "readers"),
    ),
    ("`serve` loses nothing and mixes up nothing, whoever else connects", "serve-under-load", ("load",)),
)


def write(attack: str, text: str) -> None:
    """Replace the figures of an attack by these, and the summary of all."""
    page = _replaced(PAGE.read_text(encoding="utf-8"), attack, text)
    PAGE.write_text(_replaced(page, "summary", summary(page)), encoding="utf-8")


def _replaced(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, after = page.partition(begin)[0], page.partition(end)[2]
    if len(before) == len(page):
        raise SystemExit(f"{PAGE}: has no place for the figures of {name}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def summary(page: str) -> str:
    """Of each promise, how often it was tried and how often it failed, from the tables of the page."""
    lines = ["| promise | tried | failed |", "|---|--:|--:|"]
    for promise, section, names in PROMISES:
        counts = [_counts(page.partition(f"<!-- {name}: begin -->")[2].partition("<!--")[0]) for name in names]
        tried, failed = (sum(numbers) for numbers in zip(*counts, strict=True))
        lines.append(f"| [{promise}](#{section}) | {tried:,} | {failed:,} |")
    return "\n".join(lines)


def _counts(table: str) -> tuple[int, int]:
    """How often something was tried, and how often it failed, in all rows of a table."""
    if said := re.findall(r"([\d,]+) kills \([^)]*\): (\d+) differences", table):
        return sum(_number(tried) for tried, _ in said), sum(_number(failed) for _, failed in said)
    rows = list(_rows(table))
    tried, failed = (sum(_number(row.get(name, "")) for row in rows for name in names) for names in (TRIED, FAILED))
    return tried, failed


def _rows(table: str) -> Iterator[dict[str, str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    for row in cells[2:]:
        yield dict(zip(cells[0], row, strict=True))


def _number(cell: str) -> int:
    return int(cell.replace(",", "") or 0)


def write_figures(attack: str, lines: Iterable[str]) -> None:
    """The same, with the day."""
    write(attack, "\n".join([f"{today()}.", "", *lines]))


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
        cells = [*(f"{count:,}" if isinstance(count, int) else count for count in counts), today()]
        self.rows[name] = f"| {name} | {' | '.join(cells)} |"
        print(self.rows[name], flush=True)
        line = "|---" + "|--:" * (self.head.count("|") - 1) + "|"
        rows = [self.rows[each] for each in self.order if each in self.rows]
        write(self.attack, "\n".join([f"{self.head} day |", line, *rows]))


def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).date().isoformat()
