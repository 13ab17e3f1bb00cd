"""Train and score the missing runs of a grid, with the ordinary commands in separate processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from evenglot.corpus.prepare import prepare
from evenglot.files import lock, remove_folder
from evenglot.grid.display import GridDisplay
from evenglot.grid.keep import keep, restore_baselines
from evenglot.grid.plan import Grid, Job
from evenglot.grid.status import grid_status, is_trained, length_changed, refuse_to_lengthen, wanted_losses
from evenglot.progress import Bars
from evenglot.runs.run import RunError
from evenglot.runs.scores import scores_file
from evenglot.training.parallel import cores

SECONDS_BETWEEN_LOOKS = 0.5  # polling interval
PR_SET_PDEATHSIG = 1
OUTPUT = "output.txt"  # in the folder of a run: the output of its commands


class JobError(RunError):
    """A run of the grid did not complete.

    kind: "failed" (a command exited with an error), "killed" (by a signal), "stopped" (training was asked to stop and
    saved a checkpoint), "blocked" (a run that it needs is missing).
    """

    def __init__(self, job: str, kind: Literal["failed", "killed", "stopped", "blocked"], message: str) -> None:
        super().__init__(f"{job}: {message}")
        self.job, self.kind = job, kind


@dataclass
class Working:
    """A run in progress: the remaining commands and the current process."""

    job: Job
    commands: deque[list[str]]
    output: IO[bytes]
    process: subprocess.Popen[bytes] | None = None
    command: str = ""
    threads: int | None = None
    held: int | None = None  # the lock of the grid; inherited by the process, which may outlive this one
    output_before: int = 0  # bytes of output before the current command

    def advance(self) -> bool:
        """Start the next command when the current one has ended; False when all are done. JobError if one failed."""
        if self.process is not None:
            status = self.process.poll()
            if status is None:
                return True
            if status != 0:
                raise self._error(status)
            if self.command == "train" and not is_trained(self.job):  # a stopped run exits without an error
                raise JobError(
                    self.job.name,
                    "stopped",
                    "training was stopped before its end; run the same command again to resume",
                )
        if not self.commands:
            return False
        self.output_before = os.fstat(self.output.fileno()).st_size
        environment = os.environ | ({"OMP_NUM_THREADS": str(self.threads)} if self.threads else {})
        arguments = self.commands.popleft()
        self.command = arguments[0]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evenglot", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches only this process, which stops the runs
            pass_fds=() if self.held is None else (self.held,),
            preexec_fn=_end_with_parent,
        )
        return True

    def _error(self, status: int) -> JobError:
        """An error with the last line of the command's output."""
        self.output.seek(self.output_before)
        lines = self.output.read().decode("utf-8", errors="replace").strip().splitlines()
        last = lines[-1].removeprefix("evenglot: ") if lines else "no output"
        if status > 0:
            return JobError(self.job.name, "failed", f"{last} ({self.output.name})")
        name = signal.Signals(-status).name
        return JobError(self.job.name, "killed", f"killed by {name}; last output: {last} ({self.output.name})")

    def stop(self) -> None:
        """Ask the current process to end; training saves a checkpoint first."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self.process is not None:
            self.process.wait()
        self.output.close()


@dataclass
class Workers:
    """Runs jobs, at most `at_once` at the same time."""

    grid: Grid
    jobs: Sequence[Job]
    every: Sequence[Job]  # all jobs of the grid: they determine which losses a job must compute
    at_once: int
    finish: Callable[[Job], None]
    display: GridDisplay
    held: int | None = None
    failures: list[JobError] = field(default_factory=list)
    working: list[Working] = field(default_factory=list)

    def run(self) -> None:
        """Run all jobs that can run; a failure blocks only the jobs that need the failed run."""
        waiting = list(self.jobs)
        try:
            while waiting or self.working:
                while len(self.working) < self.at_once and (job := self._next(waiting)) is not None:
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

    def _begin(self, job: Job) -> Working:
        job.run.folder.mkdir(parents=True, exist_ok=True)
        outdated = [] if is_trained(job) else [scores_file(job.run, self.grid.split)]
        if length_changed(job):  # baselines of the shorter run are outdated
            outdated += wanted_losses(job, self.every)
        if not any(job.run.checkpoints.glob("*")):  # it starts from scratch
            outdated.append(job.run.log_file)
        for file in outdated:
            file.unlink(missing_ok=True)
        threads = None if job.config.train.threads else max(1, cores() // self.at_once)
        to_do = deque(commands(self.grid, job, self.every, threads))
        output = (job.run.folder / OUTPUT).open("ab+")
        self.display.begin(job)
        return Working(job, to_do, output, threads=threads, held=self.held)

    def _look_after(self, work: Working) -> None:
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


def run_grid(grid: Grid, jobs: Sequence[Job], *, at_once: int = 1, keep_in: Path | None = None) -> list[JobError]:
    """Prepare the data and train the missing runs. Returns the failures; the other runs are complete."""
    root = Path(grid.base).parent
    out = Path(grid.out)
    out.mkdir(parents=True, exist_ok=True)
    with lock(out, f"{out}: another process is working on this grid; wait until it ends") as held, _exit_on_signals():
        status = grid_status(grid, jobs, keep_in)
        missing = status.missing
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
            finish(job)
        if not missing:
            return []
        for config in {job.config.store.folder: job.config for job in missing}.values():
            prepare(config, Bars())
        with GridDisplay(len(jobs), missing, at_once) as display:
            workers = Workers(grid, missing, jobs, at_once, finish, display, held)
            workers.run()
        return workers.failures


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into SystemExit, so that the runs are stopped and save a checkpoint."""

    def stop(number: int, _: object) -> None:
        os.write(2, b"\nStopping: the runs save a checkpoint. Run the same command again to resume.\n")
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_parent() -> None:
    """In a new process: have the kernel send SIGTERM when the parent dies (Linux only; elsewhere it keeps running)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
