"""What `evenglot score` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from evenglot.tables import table

OPTIONAL = {  # heading, factor, digits
    "loss_per_character": ("loss/char", 1, 3),
    "off_target": ("off-target %", 100, 1),
    "comet": ("COMET", 1, 4),
}


def score_table(scores: Mapping[str, Any], pairs: Mapping[str, int]) -> Table:
    """One row a direction, largest corpus first, and the means."""
    directions = scores["directions"]
    extra = [key for key in OPTIONAL if any(row.get(key) is not None for row in directions.values())]
    rows = {}
    for name in sorted(directions, key=lambda name: -pairs.get(name, 0)):
        row = directions[name]
        rows[name] = [f"{pairs.get(name, 0):,}", f"{row['lines']:,}", *_two(row), *(_cell(row, key) for key in extra)]
    for label, key in (("mean", "macro"), ("smaller corpora", "low_resource"), ("larger corpora", "high_resource")):
        if key in scores:
            rows[label] = ["", "", *_two(scores[key]), *("" for _ in extra)]
    columns = ["train pairs", "lines", "BLEU", "chrF++", *(OPTIONAL[key][0] for key in extra)]
    return table(f"Scores ({scores['split']})", rows, columns)


def _two(row: Mapping[str, float]) -> list[str]:
    return [f"{row['bleu']:.2f}", f"{row['chrf']:.2f}"]


def _cell(row: Mapping[str, Any], key: str) -> str:
    _, factor, digits = OPTIONAL[key]
    return "-" if row.get(key) is None else f"{factor * row[key]:.{digits}f}"


def score_summary(scores: Mapping[str, Any]) -> str:
    """The worst direction, and how the numbers were made."""
    worst, signature = scores["worst"], scores["signature"]
    return (
        f"Worst direction: {worst['direction']}, chrF++ {worst['chrf']:.2f}.\n"
        f"BLEU {signature['bleu']}\nchrF++ {signature['chrf']}"
    )
