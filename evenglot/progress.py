"""Progress bars with the time left; plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[[int], object]
WORTH_A_LINE = 5.0  # seconds; quicker work is not mentioned where there is no terminal


class Bars:
    """Shows one bar for each piece of work, on a terminal; elsewhere a line when long work is done."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def note(self, text: str) -> None:
        """Say something in between."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Advance]:
        """A piece of work of this size; call what you are given with every bit that is done."""
        if not self.console.is_terminal:
            started = monotonic()
            yield lambda amount: None
            if (seconds := monotonic() - started) > WORTH_A_LINE:
                self.console.print(f"{label}: {seconds:.0f} s", highlight=False, soft_wrap=True)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console) as bars:
            self.console.show_cursor(True)  # a process that is killed must not leave the terminal without one
            task = bars.add_task(label, total=total)
            yield lambda amount: bars.advance(task, amount)
            bars.update(task, completed=total or 1, total=total or 1)
