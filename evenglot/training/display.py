"""Progress of a run on standard error: a live view on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evenglot.live import TerminalView, View, can_be_live, say, view_on
from evenglot.runs.events import (
    BalanceEvent,
    CheckpointEvent,
    ConfigEvent,
    DoneEvent,
    Event,
    ResumeEvent,
    StepEvent,
    ValidationEvent,
    Values,
    WarningEvent,
)
from evenglot.runs.standings import Standings, aimed_at
from evenglot.tables import table
from evenglot.verbosity import verbosity
from evenglot.wording import counted, duration, number, percent

SECONDS_BETWEEN_PICTURES = 1.0  # drawing takes about 10 ms, and training waits for it
MOST_ROWS = 12
OTHER_LINES = 7  # of the live view: bar, numbers, empty line, heading, rule, "and N more", and the line of the cursor
REASONS = {
    "updates": "all updates done",
    "intervals": "all intervals done",
    "patience": "no improvement in validation",
    "stopped": "stopped",
}
SHORT_INTERVAL = 100  # updates; of such intervals not every mixture has a line
UPDATES_BETWEEN_MIXTURES = 1000  # that have a line then
SHORT_LIST = 6  # directions in a line about the mixture, if there are too many for all of them


class Display:
    """Displays a run on standard error. A reader of the event log; `update` is called after every update as well."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.console = console or Console(stderr=True)
        self._clock = clock
        self._standings = Standings()
        self._numbers: dict[str, float | None] = {}
        self._step, self._total = 0, 0
        self._start_step: int | None = None
        self._start_time = clock()
        self._live: View | None = None
        self._last_picture = -math.inf
        self._folders: dict[int, str] = {}  # of checkpoints, by step
        self._next_mixture = 0  # first step at which the mixture is printed
        self._closed = False

    def recall(self, events: Iterable[Event]) -> None:
        """Process the events before a resume without printing them."""
        for event in events:
            self._remember(event)

    def read(self, event: Event) -> None:
        """Display an event of the log."""
        before = {name: direction.q for name, direction in self._standings.directions.items()}
        self._remember(event)
        match event:
            case ConfigEvent() | ResumeEvent():
                self._start(event.step)
            case StepEvent(loss=loss, learning_rate=rate, tokens_per_second=speed):
                numbers = {"loss": loss, "learning_rate": rate, "tokens_per_second": speed}
                self._take_numbers(event.step, event.total_updates, numbers)
            case DoneEvent():
                self._close(None)
        tell = self.warn if isinstance(event, WarningEvent) else self.note
        for line in self._lines(event, before):
            tell(line)
        self._redraw(now=not isinstance(event, StepEvent))  # step events may come with every update

    def update(self, step: int, total: int, **numbers: float | None) -> None:
        """Move the progress bar. Called after every update; draws at most once per SECONDS_BETWEEN_PICTURES."""
        if self._start_step is None:
            self._start(step - 1)
        self._take_numbers(step, total, numbers)
        self._redraw()

    def note(self, text: str) -> None:
        """Print a line above the progress bar, unless only warnings are wanted."""
        if verbosity() != "quiet":
            self.warn(text)

    def warn(self, text: str) -> None:
        """Print a line above the progress bar in any case."""
        with self._tolerate_closed_terminal():
            say(self.console, text)

    def show(self, picture: RenderableType) -> None:
        """Print a table above the progress bar."""
        if verbosity() != "quiet":
            with self._tolerate_closed_terminal():
                self.console.print(picture)

    def close(self) -> None:
        """Stop the live view and restore the terminal."""
        self._close(self._picture() if self._live is not None else None)

    def _close(self, last: RenderableType | None) -> None:
        """Without a last picture, nothing is left of the live view: the final lines replace it."""
        live, self._live, self._closed = self._live, None, True
        if live is not None:
            with self._tolerate_closed_terminal():
                live.close(last)

    @contextmanager
    def _tolerate_closed_terminal(self) -> Iterator[None]:
        """Ignore a closed terminal or a broken pipe (where rich raises SystemExit): training must continue."""
        try:
            yield
        except (OSError, SystemExit):
            self._closed = self.console.quiet = True
            if self.console.file in (sys.stderr, sys.__stderr__):
                # Otherwise Python fails at exit when it flushes the buffer, after a successful run.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    @property
    def has_picture(self) -> bool:
        """Is the cursor of the terminal in the last line of the live view?"""
        return isinstance(self._live, TerminalView)

    @property
    def _is_live(self) -> bool:
        return can_be_live(self.console) and verbosity() != "quiet"

    # State

    def _remember(self, event: Event) -> None:
        self._standings.take([event])
        if isinstance(event, CheckpointEvent) and event.folder:
            self._folders[event.step] = event.folder
        if isinstance(event, ConfigEvent):
            self._total = event.updates or self._total

    def _start(self, step: int) -> None:
        self._start_step, self._start_time = step, self._clock()

    def _take_numbers(self, step: int, total: int | None, numbers: Values) -> None:
        self._step, self._total = step, total or self._total
        self._standings.step = max(self._standings.step, step)
        for name in ("loss", "learning_rate", "tokens_per_second"):
            if name in numbers:
                self._numbers[name] = numbers[name]

    def _seconds_left(self) -> float | None:
        """Estimate from the mean speed since the start, including validations and checkpoints."""
        done = self._step - (self._start_step or 0)
        if done <= 0 or not self._total:
            return None
        return max(0, self._total - self._step) * (self._clock() - self._start_time) / done

    # Permanent lines

    def _lines(self, event: Event, before: Mapping[str, float | None]) -> list[str]:
        """The lines to print for an event."""
        match event:
            case ResumeEvent():
                return [f"resumed after update {event.step:,}"]
            case StepEvent() if not self._is_live:
                return [self._step_line()]
            case BalanceEvent(changed=True) if not self._is_live and event.step >= self._next_mixture:
                is_short = self._standings.interval_updates < SHORT_INTERVAL
                self._next_mixture = event.step + (UPDATES_BETWEEN_MIXTURES if is_short else 0)
                return [balance_line(event, before)]
            case ValidationEvent():
                return [validation_line(event)]
            case WarningEvent():
                return [f"warning  {event.message}"]
            case DoneEvent():
                return self._closing_lines(event)
        return []

    def _step_line(self) -> str:
        total = f"/{self._total:,}  {100 * self._step / self._total:.0f} %" if self._total else ""
        left = self._seconds_left()
        parts = [f"update {self._step:,}{total}", *self._formatted_numbers()]
        return "  ".join([*parts, f"{duration(left)} left"] if left is not None else parts)

    def _formatted_numbers(self) -> list[str]:
        loss, rate, speed = (self._numbers.get(name) for name in ("loss", "learning_rate", "tokens_per_second"))
        parts = [f"loss {number(loss)}"]
        if rate is not None:
            parts.append(f"lr {short_exponent(rate)}")
        if speed is not None:
            parts.append(f"{speed:,.0f} tok/s")
        return parts

    def _closing_lines(self, event: DoneEvent) -> list[str]:
        time = f" in {duration(event.seconds)}" if event.seconds is not None else ""
        reason = f" ({REASONS.get(event.reason, event.reason)})" if event.reason else ""
        lines = [f"done  {counted(event.step, 'update')}{time}{reason}"]
        best = event.best_step
        if best is not None:
            folder = event.best_folder or self._folders.get(best)
            where = f"  {folder}" if folder else ""
            score = None if event.best_score is None else f"best  update {best:,}  score {number(event.best_score, 3)}"
            lines.append((score or f"saved  update {best:,}") + where)  # without a validation no model is the best
        return lines

    # Live view

    def _redraw(self, now: bool = False) -> None:
        """Redraw the live view if due; not in a thread, as the state must not change meanwhile."""
        if not self._is_live or self._closed or not self._step:
            return
        if not now and self._clock() - self._last_picture < SECONDS_BETWEEN_PICTURES:
            return
        self._last_picture = self._clock()
        with self._tolerate_closed_terminal():
            if self._live is None:
                self._live = view_on(self.console)
            self._live.update(self._picture())

    def _picture(self) -> RenderableType:
        rows = min(MOST_ROWS, self.console.height - OTHER_LINES)
        return Group(self._bar(), self._figures(), *self._languages(rows))

    def _bar(self) -> Table:
        done, total = min(self._step, self._total or self._step), self._total or self._step
        line = Table.grid(padding=(0, 2), expand=True)
        line.add_column(no_wrap=True)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        updates = f"update {self._step:,}/{total:,}"
        line.add_row(updates, ProgressBar(total=max(1, total), completed=done), f"{100 * done / max(1, total):.0f} %")
        return line

    def _figures(self) -> Text:
        left = self._seconds_left()
        parts = [*self._formatted_numbers(), f"{duration(self._clock() - self._start_time)} elapsed"]
        text = "  ".join([*parts, f"{duration(left)} left"] if left is not None else parts)
        return Text(text, no_wrap=True, overflow="ellipsis")

    def _languages(self, most: int) -> list[RenderableType]:
        directions = self._standings.directions
        if not directions or most < 1:
            return []
        shown = worth_showing(self._standings, most)
        columns = ("data %", "weight %" if self._standings.reweights else "sampled %", *COLUMNS)
        result = table("", {name: self._cells(name) for name in shown}, columns)
        result.show_edge = False
        more = len(directions) - len(shown)
        return [Text(), result, *([Text(f"... and {more} more", style="dim")] if more else [])]

    def _cells(self, name: str) -> list[str]:
        direction = self._standings[name]
        return [
            percent(direction.p),
            percent(direction.q),
            number(self._standings.passes(name), 1),
            number(direction.train_loss),
            number(direction.valid_loss, 3),
            change(direction.valid_loss_before, direction.valid_loss),
        ]


COLUMNS = ("passes", "train loss", "valid loss", "change")


def worth_showing(standings: Standings, most: int) -> list[str]:
    """All directions, largest first; if too many, those with extreme q / p and those with the highest losses."""
    directions = standings.directions
    largest_first = sorted(directions, key=lambda name: -directions[name].pairs)
    if len(largest_first) <= most:
        return largest_first

    def unlikeness(name: str) -> float:
        return -abs(math.log(directions[name].q_over_p))

    def goodness(name: str) -> float:
        losses = (directions[name].valid_loss, directions[name].train_loss)
        return -next((loss for loss in losses if loss is not None), 0.0)

    chosen = set(sorted(largest_first, key=unlikeness)[: most // 2])
    for name in sorted(largest_first, key=goodness):
        if len(chosen) < most:
            chosen.add(name)
    return [name for name in largest_first if name in chosen]


def change(before: float | None, now: float | None) -> str:
    """The signed change of a loss since the previous validation."""
    return "" if before is None or now is None else f"{now - before:+.3f}"


def short_exponent(value: float) -> str:
    """Scientific notation with a short exponent: 3.0e-4."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def validation_line(event: ValidationEvent) -> str:
    """The results of a validation in one line."""
    best = " (best)" if event.best else ""
    means = {"valid": event.pooled, "macro": event.macro, "worst": event.worst}
    parts = {label: number(value, 3) for label, value in means.items() if value is not None}
    if event.score is not None and event.score not in means.values():
        parts["score"] = number(event.score, 3)
    first, *others = [f"{label} {value}" for label, value in parts.items()] or ["valid"]
    if "worst" in parts and (name := _whose(event, means["worst"])):
        others = [f"{other} {name}" if other.startswith("worst") else other for other in others]
    return "  ".join([f"update {event.step:,}", first + best, *others])


def _whose(event: ValidationEvent, value: float | None) -> str | None:
    """The direction with this value."""
    for measured in (event.loss, event.loss_per_character, event.chrf or {}):
        for name, number_of_it in measured.items():
            if number_of_it is not None and number_of_it == value:
                return name
    return None


def balance_line(event: BalanceEvent, before: Mapping[str, float | None]) -> str:
    """The new mixture in percent; if there are many directions, those whose share changed most."""
    mixture = aimed_at(event) or {}

    def moved(name: str) -> float:
        return -abs(mixture[name] - (before.get(name) or 0.0))

    shown = sorted(mixture, key=moved)[:SHORT_LIST] if len(mixture) > 2 * SHORT_LIST else list(mixture)
    shares = "  ".join(f"{name} {percent(mixture[name])}" for name in shown)
    more = f"  ... and {len(mixture) - len(shown)} more" if len(shown) < len(mixture) else ""
    return f"update {event.step:,}  balance in %  {shares}{more}"
