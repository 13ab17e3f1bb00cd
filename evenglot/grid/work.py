"""Train and score the missing runs of a grid, with the ordinary commands, here or on a Ray cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evenglot.config import Config
from evenglot.corpus.prepare import prepare
from evenglot.files import LockedError, lock, remove_folder
from evenglot.grid.display import GridDisplay
from evenglot.grid.keep import keep, restore_baselines
from evenglot.grid.plan import Grid, Job
from evenglot.grid.process import Here, JobError
from evenglot.grid.status import grid_status, is_trained, length_changed, refuse_to_lengthen, wanted_losses
from evenglot.progress import Bars
from evenglot.runs.run import GRID_LOCK, OUTPUT
from evenglot.runs.scores import scores_file

__all__ = ["OUTPUT", "Here", "JobError", "Place", "Work", "Workers", "commands", "run_grid"]

SECONDS_BETWEEN_LOOKS = 0.5  # polling interval
STOP = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Work(Protocol):
    """A run in progress."""

    job: Job

    def advance(self) -> bool:
        """Do what can be done without waiting; False when the run is complete. JobError if it failed."""

    def stop(self) -> None:
        """Ask it to end; training saves a checkpoint first."""

    def wait(self) -> None:
        """Wait until it has ended."""


class Place(Protocol):
    """Where runs are trained."""

    at_once: int  # how many runs are started before another ends

    def threads(self, job: Job) -> int | None:
        """CPU threads of each process of a run; None: as configured."""

    def start(self, job: Job, commands: Sequence[list[str]], held: Sequence[int]) -> Work:
        """Start a run; its processes inherit the locks `held`, if they are processes of this machine."""


@dataclass
class Workers:
    """Runs jobs in a place."""

    grid: Grid
    jobs: Sequence[Job]
    every: Sequence[Job]  # all jobs of the grid: they determine which losses a job must compute
    place: Place
    finish: Callable[[Job], None]
    display: GridDisplay
    held: Sequence[int] = ()
    failures: list[JobError] = field(default_factory=list)
    working: list[Work] = field(default_factory=list)

    def run(self) -> None:
        """Run all jobs that can run; a failure blocks only the jobs that need the failed run."""
        waiting = list(self.jobs)
        try:
            while waiting or self.working:
                while len(self.working) < self.place.at_once and (job := self._next(waiting)) is not None:
                    waiting.remove(job)
                    self.working.append(self._begin(job))
                if not self.working:
                    self.failures += [
                        JobError(job.name, "blocked", f"not started: it needs the losses of {job.needs[0].folder}")
                        for job in waiting
                        if job.needs
                    ]
                    return
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for work in list(self.working):
                    self._look_after(work)
        finally:
            for work in self.working:
                work.stop()
            for work in self.working:
                work.wait()

    def _next(self, waiting: Sequence[Job]) -> Job | None:
        return next((job for job in waiting if job.needs is None or job.needs[1].exists()), None)

    def _begin(self, job: Job) -> Work:
        outdated = [] if is_trained(job) else [scores_file(job.run, self.grid.split)]
        if length_changed(job):  # baselines of the shorter run are outdated
            outdated += wanted_losses(job, self.every)
        if not any(job.run.checkpoints.glob("*")):  # it starts from scratch
            outdated.append(job.run.log_file)
        for file in outdated:
            file.unlink(missing_ok=True)
        self.display.begin(job)
        return self.place.start(job, commands(self.grid, job, self.every, self.place.threads(job)), self.held)

    def _look_after(self, work: Work) -> None:
        try:
            busy = work.advance()
        except JobError as error:
            self.failures.append(error)
            self.display.failed(work.job, str(error))
            busy = False
        else:
            if busy:
                self.display.progress(work.job)
            else:
                self.finish(work.job)
                self.display.end(work.job)
        if not busy:
            work.wait()
            self.working.remove(work)


def commands(grid: Grid, job: Job, jobs: Sequence[Job], threads: int | None = None) -> list[list[str]]:
    """The commands of a run: train, score, and compute the losses that other runs use as baselines."""
    folder = os.fspath(job.run.folder)
    overrides = [*job.overrides, *([f"train.threads={threads}"] if threads else [])]
    settings = [part for override in overrides for part in ("--set", override)]
    found = [
        ["train", grid.base, "--out", folder, "--resume", *settings],
        ["score", folder, "--split", grid.split, "--beam", str(grid.beam)],
    ]
    found += [
        ["baseline", folder, "--out", os.fspath(file), "--split", signal.split, "--per", signal.unit]
        for file, signal in wanted_losses(job, jobs).items()
        if not file.exists()
    ]
    return found


def run_grid(
    grid: Grid,
    jobs: Sequence[Job],
    *,
    place: Place | None = None,
    keep_in: Path | None = None,
    only: Sequence[Job] | None = None,
) -> list[JobError]:
    """Prepare the data and train the missing runs. Returns the failures; the other runs are complete.

    `only`: of these runs; other processes may train others of the same grid meanwhile.
    """
    place = place or Here(jobs)
    chosen = {job.name for job in (jobs if only is None else only)}
    root = Path(grid.base).parent
    with _locks(grid, only) as held, _exit_on_signals():
        status = grid_status(grid, jobs, keep_in)
        missing = [job for job in status.missing if job.name in chosen]
        for job in jobs:
            if keep_in is not None:
                restore_baselines(job, keep_in)
        refuse_to_lengthen(jobs, missing)

        def finish(job: Job) -> None:
            if keep_in is not None:
                keep(job, grid.split, keep_in, root)
            if grid.checkpoints == "remove" and job.run.checkpoints.exists():
                remove_folder(job.run.checkpoints)

        for job in status.complete:
            if job.name in chosen:
                finish(job)
        if not missing:
            return []
        for config in {job.config.store.folder: job.config for job in missing}.values():
            _prepare(config, waits=only is not None)
        with GridDisplay(len(chosen), missing, place.at_once) as display:
            workers = Workers(grid, missing, jobs, place, finish, display, held)
            workers.run()
        return workers.failures


@contextmanager
def _locks(grid: Grid, only: Sequence[Job] | None) -> Iterator[list[int]]:
    """Lock the folder of the grid; for `only` some runs, share it with others and lock the folders of these runs."""
    out = Path(grid.out)
    out.mkdir(parents=True, exist_ok=True)
    busy = f"{out}: another process is working on this grid; wait until it ends"
    with ExitStack() as stack:
        held = [stack.enter_context(lock(out, busy, shared=only is not None))]
        for job in only or ():
            job.run.folder.mkdir(parents=True, exist_ok=True)
            busy = f"{job.run.folder}: another process is working on this run; wait until it ends"
            held.append(stack.enter_context(lock(job.run.folder, busy, name=GRID_LOCK)))
        yield held


def _prepare(config: Config, waits: bool) -> None:
    """Make the store; of several processes that find it missing, the first makes it and the others wait."""
    while True:
        try:
            prepare(config, Bars())
            return
        except LockedError:
            if not waits:
                raise
            time.sleep(SECONDS_BETWEEN_LOOKS)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into SystemExit, so that the runs are stopped and save a checkpoint."""

    def stop(number: int, _: object) -> None:
        os.write(2, b"\nStopping: the runs save a checkpoint. Run the same command again to resume.\n")
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
