"""Progress of a grid: a bar for all runs and one per running job; plain lines if the output is not a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from evenglot.grid.plan import Job
from evenglot.live import say
from evenglot.runs.log import last_step
from evenglot.verbosity import verbosity
from evenglot.wording import counted, duration

COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    TextColumn("{task.percentage:>3.0f} %"),
    TimeElapsedColumn(),
    TimeRemainingColumn(elapsed_when_finished=True),
)


class GridDisplay:
    """Progress in updates, out of the total of all missing runs."""

    def __init__(self, runs: int, missing: Sequence[Job], at_once: int, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._runs, self._at_once = runs, at_once
        self._total = sum(job.config.train.updates for job in missing)
        self._left, self._runs_failed = len(missing), 0
        self._done: dict[str, int] = {job.name: last_step(job.run.log_file) for job in missing}
        self._done_before = sum(self._done.values())
        self._started = monotonic()
        self._bars = Progress(*COLUMNS, console=self.console, speed_estimate_period=3600, refresh_per_second=2)
        self._all = self._bars.add_task(self._heading(), total=self._total, completed=self._done_before)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._say(
            f"{self._runs - self._left} of {self._runs} runs complete; {counted(self._total, 'update')} in the others."
        )
        if self.console.is_terminal and verbosity() != "quiet":
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def begin(self, job: Job) -> None:
        """A run starts or resumes."""
        self._tasks[job.name] = self._bars.add_task(
            job.name, total=job.config.train.updates, completed=self._done[job.name]
        )

    def progress(self, job: Job) -> None:
        """Read the progress of a run from its log."""
        self._done[job.name] = last_step(job.run.log_file)
        self._bars.update(self._tasks[job.name], completed=self._done[job.name])
        self._bars.update(self._all, completed=sum(self._done.values()))

    def end(self, job: Job) -> None:
        """A run is complete."""
        self._done[job.name] = job.config.train.updates
        self._gone(job)
        if not self.console.is_terminal:
            done = sum(self._done.values()) - self._done_before
            left = self._total - sum(self._done.values())
            seconds = (monotonic() - self._started) / max(1, done) * left
            time = f"; about {duration(seconds)} left" if left else ""
            self._say(f"{job.name}: complete ({self._heading()}{time})")

    def failed(self, job: Job, message: str) -> None:
        """A run has failed; the others continue."""
        self._runs_failed += 1
        self._gone(job)
        self._print(message)

    def _gone(self, job: Job) -> None:
        self._left -= 1
        self._bars.remove_task(self._tasks.pop(job.name))
        self._bars.update(self._all, completed=sum(self._done.values()), description=self._heading())

    def _heading(self) -> str:
        failed = f" ({self._runs_failed} failed)" if self._runs_failed else ""
        return f"{self._runs - self._left - self._runs_failed}/{self._runs} runs{failed}"

    def _say(self, text: str) -> None:
        if verbosity() != "quiet":
            self._print(text)

    def _print(self, text: str) -> None:
        say(self._bars.console, text)
