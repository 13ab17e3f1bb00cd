"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table


def table(title: str, rows: Mapping[str, Sequence[str]], columns: Sequence[str], corner: str = "") -> Table:
    """A table of ready-made cells: one row for each key, numbers to the right."""
    result = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    result.box, result.pad_edge, result.collapse_padding = box.SIMPLE_HEAD, False, True  # narrow: fits 80 columns
    result.add_column(corner, no_wrap=True)
    for column in columns:
        result.add_column(column, justify="right", no_wrap=True)
    for name, cells in rows.items():
        result.add_row(name, *cells)
    return result
