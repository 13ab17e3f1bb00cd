"""Output of the commands other than tables: warnings and names of written files."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from evenglot.live import say


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    """Print one line per warning."""
    for warning in warnings:
        say(console, Text.assemble(("warning", "yellow"), f" {warning}"))


def print_file(console: Console, kind: str, path: Path) -> None:
    """Print where a result was written: 'Report: runs/first/report.html'."""
    console.print(f"{kind}: {path}", highlight=False, soft_wrap=True, markup=False)


def outlive_readers() -> None:
    """Keep running when the reader of the output exits (`| head`, a client); for servers and training runs."""
    if hasattr(signal, "SIGPIPE"):  # not on Windows, where writing to a closed pipe is an error anyway
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
