"""Progress bars with the remaining time; plain lines if the output is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[[int], object]
WORTH_A_LINE = 5.0  # seconds; without a terminal, shorter tasks are not reported


class Bars:
    """Shows one bar per task on a terminal; otherwise prints one line when a long task ends."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def note(self, text: str) -> None:
        """Print a line of text."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Advance]:
        """A task of this size; yields a function to call with the amount of work done since the last call."""
        if not self.console.is_terminal:
            started = monotonic()
            yield lambda amount: None
            if (seconds := monotonic() - started) > WORTH_A_LINE:
                self.console.print(f"{label}: {seconds:.0f} s", highlight=False, soft_wrap=True)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console) as bars:
            self.console.show_cursor(True)  # so that a killed process does not leave the terminal without a cursor
            task = bars.add_task(label, total=total)
            yield lambda amount: bars.advance(task, amount)
            bars.update(task, completed=total or 1, total=total or 1)
