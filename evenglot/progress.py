"""Progress of a stage: a bar with the remaining time on a terminal or in a notebook; elsewhere a line at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from evenglot.live import NotebookView, can_be_live, say
from evenglot.verbosity import verbosity
from evenglot.wording import duration

Advance = Callable[[int], object]
WORTH_A_LINE = 5.0  # seconds; shorter tasks leave no line, unless everything is to be said
SECONDS_BETWEEN_PICTURES = 0.5  # in a notebook


class Bars:
    """Shows one bar per task, which disappears with it; a long task leaves a line that says how long it took."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def note(self, text: str) -> None:
        """Print a line of text, unless only warnings are wanted."""
        if verbosity() != "quiet":
            self.warn(text)

    def warn(self, text: str) -> None:
        """Print a line of text in any case."""
        say(self.console, text)

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Advance]:
        """A task of this size; yields a function to call with the amount of work done since the last call."""
        started = monotonic()
        with self._bar(label, total) as advance:
            yield advance
        seconds = monotonic() - started
        if seconds > WORTH_A_LINE or verbosity() == "verbose":
            self.note(f"{label}: {duration(seconds)}")

    @contextmanager
    def _bar(self, label: str, total: int | None) -> Iterator[Advance]:
        if verbosity() == "quiet" or not can_be_live(self.console):
            yield lambda amount: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        if self.console.is_jupyter:
            with _notebook_bar(Progress(*columns, console=self.console), label, total) as advance:
                yield advance
            return
        with Progress(*columns, console=self.console, transient=True) as bars:
            self.console.show_cursor(True)  # so that a killed process does not leave the terminal without a cursor
            task = bars.add_task(label, total=total)
            yield lambda amount: bars.advance(task, amount)


@contextmanager
def _notebook_bar(bars: Progress, label: str, total: int | None) -> Iterator[Advance]:
    """The same bar as an output of the cell, drawn by this thread: the outputs of others may go to another cell."""
    task = bars.add_task(label, total=total)
    view = NotebookView(bars.console.width)
    view.update(bars.get_renderable())
    drawn = monotonic()

    def advance(amount: int) -> None:
        nonlocal drawn
        bars.advance(task, amount)
        if monotonic() - drawn > SECONDS_BETWEEN_PICTURES:
            drawn = monotonic()
            view.update(bars.get_renderable())

    try:
        yield advance
    finally:
        view.close()
