"""What the commands print besides tables: warnings and the files they wrote."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    """One line each."""
    for warning in warnings:
        console.print("warning", style="yellow", end=" ")
        console.print(warning, highlight=False, soft_wrap=True, markup=False)


def print_file(console: Console, kind: str, path: Path) -> None:
    """Where a result was written: 'Report: runs/first/report.html'."""
    console.print(f"{kind}: {path}", highlight=False, soft_wrap=True, markup=False)


def outlive_readers() -> None:
    """Keep running when whoever reads our output goes away (`| head`, a client): for servers and training runs."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
