"""Runs what is missing of a grid: each run is the ordinary commands, in processes of their own, some at a time."""

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
from typing import IO

from evenglot.balance.balancer import Signal
from evenglot.comparison.results import Result, read_result
from evenglot.corpus.prepare import prepare
from evenglot.files import lock, remove_folder
from evenglot.grid.display import GridDisplay
from evenglot.grid.keep import FREE_TO_KEEP, keep, kept, restore_baselines
from evenglot.grid.plan import Grid, Job
from evenglot.progress import Bars
from evenglot.runs.events import DoneEvent
from evenglot.runs.log import read_log
from evenglot.runs.run import Run, RunError
from evenglot.runs.scores import scored_with, scores_file
from evenglot.training.parallel import cores
from evenglot.wording import some

SECONDS_BETWEEN_LOOKS = 0.5  # at what the processes do
PR_SET_PDEATHSIG = 1
LIMITS = {"train.updates", "train.intervals", "train.patience"}  # of the length of a run
OUTPUT = "output.txt"  # in the folder of a run: what its commands said


@dataclass
class Working:
    """A job that is being done: the commands that are left, and the one that runs."""

    job: Job
    commands: deque[list[str]]
    output: IO[bytes]
    process: subprocess.Popen[bytes] | None = None
    command: str = ""
    threads: int | None = None
    held: int | None = None  # the lock of the grid, which a run holds too: it may outlive us
    said_before: int = 0  # bytes of output before the command that runs

    def go_on(self) -> bool:
        """Start the next command when the last is done. Is there anything left? RunError if one failed."""
        if self.process is not None:
            status = self.process.poll()
            if status is None:
                return True
            if status != 0:
                raise RunError(f"{self.job.name}: {self._last_words(status)} ({self.output.name})")
            if self.command == "train" and not _trained(self.job):  # whoever asked it to stop, it did so in good order
                raise RunError(f"{self.job.name}: training was stopped before its end; start again to go on")
        if not self.commands:
            return False
        self.said_before = os.fstat(self.output.fileno()).st_size
        environment = os.environ | ({"OMP_NUM_THREADS": str(self.threads)} if self.threads else {})
        arguments = self.commands.popleft()
        self.command = arguments[0]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evenglot", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C is for us: we tell the others
            pass_fds=() if self.held is None else (self.held,),
            preexec_fn=_end_with_us,
        )
        return True

    def _last_words(self, status: int) -> str:
        """The last line the command has said, and what killed it."""
        self.output.seek(self.said_before)
        lines = self.output.read().decode("utf-8", errors="replace").strip().splitlines()
        said = lines[-1].removeprefix("evenglot: ") if lines else "failed without a word"
        return said if status > 0 else f"killed by {signal.Signals(-status).name}; last words: {said}"

    def stop(self) -> None:
        """Ask the command to end; training saves a checkpoint first."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def wait(self) -> None:
        """Until it has ended."""
        if self.process is not None:
            self.process.wait()
        self.output.close()


@dataclass
class Workers:
    """Does jobs, so many at a time."""

    grid: Grid
    jobs: Sequence[Job]
    every: Sequence[Job]  # of the grid: those that are done may still need something of others
    at_once: int
    finish: Callable[[Job], None]
    display: GridDisplay
    held: int | None = None
    failures: list[str] = field(default_factory=list)
    working: list[Working] = field(default_factory=list)

    def run(self) -> None:
        """Until all is done that can be; a failure stops only what needs that run."""
        waiting = list(self.jobs)
        try:
            while waiting or self.working:
                while len(self.working) < self.at_once and (job := self._next(waiting)) is not None:
                    waiting.remove(job)
                    self.working.append(self._begin(job))
                if not self.working:
                    self.failures += [f"{job.name}: needs {job.needs[0].folder}" for job in waiting if job.needs]
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
        outdated = [] if _trained(job) else [scores_file(job.run, self.grid.split)]
        if _ends_elsewhere(job):  # what was made from a shorter run must not be taken for that of this one
            outdated += _wanted(job, self.every)
        if not any(job.run.checkpoints.glob("*")):  # it begins anew: what is wanted of it went with its weights
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
            busy = work.go_on()
        except RunError as error:
            self.failures.append(str(error))
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
    """What makes a finished run: train, score, and the losses that other runs take as their baselines."""
    folder = os.fspath(job.run.folder)
    overrides = [*job.overrides, *([f"train.threads={threads}"] if threads else [])]
    settings = [part for override in overrides for part in ("--set", override)]
    found = [
        ["train", grid.base, "--out", folder, "--resume", *settings],
        ["score", folder, "--split", grid.split, "--beam", str(grid.beam)],
    ]
    found += [
        ["baseline", folder, "--out", os.fspath(file), "--split", signal.split, "--per", signal.unit]
        for file, signal in _wanted(job, jobs).items()
        if not file.exists()
    ]
    return found


def _wanted(job: Job, jobs: Sequence[Job]) -> dict[Path, Signal]:
    """The losses of a run that other runs take as their baselines."""
    return {other.needs[1]: other.needs[2] for other in jobs if other.needs and other.needs[0] == job.run}


def finished(grid: Grid, job: Job, jobs: Sequence[Job]) -> bool:
    """Is there nothing left to do? RunError if the folder has a run with other settings."""
    if not job.run.config_file.exists():
        return False
    job.run.refuse_if_changed(job.config)
    changed = job.run.changes(job.config) - FREE_TO_KEEP
    if changed and _trained(job):  # what may change on the way would make this another run than the grid asks for
        raise RunError(
            f"{job.run.folder}: this run was made with another {some(sorted(changed))}; remove it, or give the grid "
            "an `out` of its own"
        )
    made = scored_with(job.run, grid.split)
    scored = made is not None and made.get("beam", grid.beam) == grid.beam
    return _trained(job) and scored and all(file.exists() for file in _wanted(job, jobs))


def _trained(job: Job) -> bool:
    if not job.run.log_file.exists():
        return False
    last = next(reversed(read_log(job.run.log_file)), None)
    if not isinstance(last, DoneEvent) or last.stopped:
        return False
    what_ended_it = last.reason  # the name of a setting, too
    before, now = (getattr(config.train, what_ended_it) for config in (job.run.config(), job.config))
    return now is not None and (before is None or now <= before)


def _ends_elsewhere(job: Job) -> bool:
    """Is the run to end elsewhere than it did when it was here before?"""
    return job.run.config_file.exists() and bool(job.run.changes(job.config) & LIMITS)


def _refuse_to_lengthen(jobs: Sequence[Job], missing: Sequence[Job]) -> None:
    """A run that goes on after its end would leave those that were trained against its losses without baselines."""
    for job in missing:
        given = [file for file in _wanted(job, jobs) if file.exists()]
        takers = [other for other in jobs if other.needs and other.needs[1] in given and other.run.config_file.exists()]
        if takers and _ends_elsewhere(job):
            raise RunError(
                f"{job.run.folder}: cannot be made longer: {takers[0].name} was trained against its losses; give the "
                "longer grid an `out` of its own"
            )


def run_grid(grid: Grid, jobs: Sequence[Job], *, at_once: int = 1, keep_in: Path | None = None) -> list[str]:
    """Prepare what must be, run what is missing. What failed, a line each."""
    root = Path(grid.base).parent
    out = Path(grid.out)
    out.mkdir(parents=True, exist_ok=True)
    with lock(out, f"{out}: another process is working on this grid; wait for it") as held, _politely():
        stored = [job for job in jobs if keep_in is not None and kept(job, grid.split, grid.beam, keep_in, root)]
        for job in stored:
            if keep_in is not None:
                restore_baselines(job, keep_in)
        stored = [job for job in stored if all(file.exists() for file in _wanted(job, jobs))]
        missing = [job for job in jobs if job not in stored and not finished(grid, job, jobs)]
        _refuse_to_lengthen(jobs, missing)

        def finish(job: Job) -> None:
            if keep_in is not None:
                keep(job, grid.split, keep_in, root)
            if grid.checkpoints == "remove" and job.run.checkpoints.exists():
                remove_folder(job.run.checkpoints)

        for job in jobs:
            if job not in stored and job not in missing:
                finish(job)
        if not missing:
            return []
        for config in {job.config.store.folder: job.config for job in missing}.values():
            prepare(config, Bars())
        with GridDisplay(len(jobs), missing, at_once) as display:
            workers = Workers(grid, missing, jobs, at_once, finish, display, held)
            workers.run()
        if workers.failures:
            workers.failures.append(f"{len(workers.failures)} of {len(missing)} runs failed; the others are done")
        return workers.failures


def grid_results(grid: Grid, jobs: Sequence[Job], keep_in: Path | None = None) -> dict[str | None, list[Result]]:
    """The results of all runs that are scored, by set of directions; of runs that are kept, from there."""
    found: dict[str | None, list[Result]] = {}
    for job in jobs:
        there = None if keep_in is None else Run(keep_in / job.name)
        run = there if there is not None and scored_with(there, grid.split) is not None else job.run
        if scored_with(run, grid.split) is not None:
            found.setdefault(job.direction, []).append(read_result(run, job.strategy, grid.split))
    return found


@contextmanager
def _politely() -> Iterator[None]:
    """Let Ctrl-C and a request to end reach the block that stops the runs. They save; the next start goes on."""

    def stop(number: int, _: object) -> None:
        os.write(2, b"\nStopping: runs save where they are. Start again to go on.\n")
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_us() -> None:
    """In a new process: let the kernel ask it to end when we are killed ourselves (Linux; elsewhere it goes on)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
