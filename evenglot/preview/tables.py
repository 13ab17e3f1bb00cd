"""The tables of `evenglot check`."""

from __future__ import annotations

from itertools import accumulate

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from evenglot.corpus.languages import can_identify
from evenglot.corpus.tables import PROBLEMS, count
from evenglot.extras import missing
from evenglot.preview.check import Check, Row
from evenglot.tables import table
from evenglot.wording import duration

MOST_EXAMPLES = 12  # corpora


def check_tables(check: Check) -> list[Table]:
    """The size of the training data and, if there are problems, the number of pairs that break each rule."""
    by_size = sorted(check.rows, key=lambda row: -row.kept)
    rows = {row.direction: _cells(row) for row in by_size}
    pairs, kept = sum(row.pairs for row in by_size), sum(row.kept for row in by_size)
    rows["all"] = [f"{pairs:,}", f"{kept:,}", "100", "", "", f"{check.epoch_tokens:,}", "", ""]
    columns = ["pairs", "kept", "p %", "passes", "at most", "tokens", "valid", "test"]
    tables = [table("Training data", rows, columns)]
    found = [reason for reason in PROBLEMS if any(row.problems[reason] for row in by_size)]
    if found:
        problems = {row.direction: [count(row.problems[reason]) for reason in found] for row in by_size}
        problems["removed?"] = ["yes" if reason in check.rules else "no" for reason in found]
        tables.append(table("Pairs with problems", problems, [PROBLEMS[reason] for reason in found]))
    return tables


def _cells(row: Row) -> list[str]:
    most = "no limit" if row.most_passes is None else _passes(row.most_passes)
    share, held_out = f"{100 * row.share:.1f}", [count(row.valid or 0), count(row.test or 0)]
    return [f"{row.pairs:,}", f"{row.kept:,}", share, _passes(row.passes), most, f"{row.target_tokens:,}", *held_out]


def _passes(value: float) -> str:
    """With one decimal, or two digits where intervals are short."""
    return f"{value:.1f}" if value >= 1 or value == 0 else f"{value:.2g}"


def check_examples(check: Check, width: int | None = None) -> list[Text]:
    """Some pairs of each corpus, for a look at them; of many corpora, of the first ones. `width`: of the terminal."""
    parts = []
    for row in check.rows[:MOST_EXAMPLES]:
        parts.append(Text(row.direction, style="bold"))
        for number, pair in enumerate(row.examples, 1):
            lines = (f"  {mark} {_plain(side)}" for mark, side in zip((str(number), " "), pair, strict=True))
            parts += [Text(line if width is None else shortened(line, width)) for line in lines]
    if (more := len(check.rows) - MOST_EXAMPLES) > 0:
        parts.append(Text(f"... and {more} more (--json has all)", style="dim"))
    return [Text("Examples", style="bold"), Text(), *parts, Text()]


def _plain(sentence: str) -> str:
    """Without characters that would change more of the terminal than one cell."""
    return "".join(character if character.isprintable() else " " for character in sentence)


def shortened(line: str, width: int) -> str:
    """The beginning of a line that does not wrap in any terminal of this width.

    Terminals disagree on vowel signs (some of Tamil's take a cell in tmux, none elsewhere): all count as a cell here.
    """
    cells = list(accumulate(max(1, cell_len(character)) for character in line))
    if not cells or cells[-1] <= width:
        return line
    return line[: sum(end < width for end in cells)] + "…"


def check_summary(check: Check) -> str:
    """The size of the data and an estimate of the training time, in a few lines."""
    seconds = check.epoch_seconds
    time = duration(seconds) if seconds >= 60 else "under a minute"
    lines = [
        f"One pass over the data: {check.epoch_tokens / 1e6:,.2f} million target tokens (estimated from characters), "
        f"{time} for a tiny model on one CPU core.",
        "passes: over each corpus in the first interval; at most: upper bound for any interval; "
        "tokens: target tokens, estimated.",
    ]
    if not can_identify():
        lines.append(
            f"Only scripts were compared with the configuration, not languages: {missing('langid', 'py3langid')}"
        )
    return "\n".join(lines)
