"""The commands of one run of a grid, one after the other in processes of this machine."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Literal

from evenglot.grid.devices import Devices, visible_gpus
from evenglot.grid.plan import Job
from evenglot.grid.status import is_trained
from evenglot.processor import threads as usable_threads
from evenglot.runs.run import OUTPUT, RunError
from evenglot.wording import last_message

PR_SET_PDEATHSIG = 1
ON_SEVERAL = ("train", "baseline")  # commands that several processes can share


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
    processes: int = 1  # of a command that several can share
    environment: dict[str, str] = field(default_factory=dict)  # in addition to that of this process
    held: Sequence[int] = ()  # locks; inherited by the process, which may outlive this one
    release: Callable[[], None] = lambda: None  # called at the end
    process: subprocess.Popen[bytes] | None = None
    command: str = ""
    output_before: int = 0  # bytes of output before the current command

    def __post_init__(self) -> None:
        self.job.run.folder.mkdir(parents=True, exist_ok=True)
        self.output: IO[bytes] = (self.job.run.folder / OUTPUT).open("ab+")

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
        arguments = self.commands.popleft()
        self.command = arguments[0]
        self.process = subprocess.Popen(
            [*self._program(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.environment},
            **_apart(self.held),
        )
        return True

    def _program(self) -> list[str]:
        if self.processes == 1 or self.command not in ON_SEVERAL:
            return [sys.executable, "-m", "evenglot"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        return [*torchrun, "--nproc-per-node", str(self.processes), "-m", "evenglot"]

    def _error(self, status: int) -> JobError:
        """An error with the last message in the command's output, or its last line."""
        self.output.seek(self.output_before)
        last = last_message(self.output.read().decode("utf-8", errors="replace"))
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
        self.release()


class Here:
    """This machine. Every run has GPUs of its own, where there are enough, and its share of the cores."""

    def __init__(self, jobs: Sequence[Job], at_once: int | None = None, gpus_per_run: int = 1) -> None:
        """`at_once`: by default, as many runs as there are groups of `gpus_per_run` GPUs.

        Without GPUs, or if the configuration says `device: cpu`, a run has so many processes on the CPU instead.
        """
        on_gpu = any(job.config.train.device != "cpu" for job in jobs)
        self.devices = Devices(visible_gpus() if on_gpu else [], gpus_per_run)
        self.processes = gpus_per_run
        self.at_once = at_once or max(1, len(self.devices.groups))

    def threads(self, job: Job) -> int | None:
        """CPU threads of each process of a run; None: as configured."""
        return None if job.config.train.threads else usable_threads(self.at_once * self.processes)

    def start(self, job: Job, commands: Sequence[list[str]], held: Sequence[int]) -> Working:
        """Start a run."""
        group, threads = self.devices.take(), self.threads(job)
        environment = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
        if group is not None:
            environment["CUDA_VISIBLE_DEVICES"] = group
        release = partial(self.devices.give_back, group)
        return Working(job, deque(commands), self.processes, environment, held, release)


def _apart(held: Sequence[int]) -> dict[str, Any]:
    """How a process is started so that Ctrl-C reaches only this one, which stops the runs, and locks are inherited.

    Windows has a flag for the first and cannot do the second; there the lock of each run folder must do.
    """
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"start_new_session": True, "pass_fds": held, "preexec_fn": _end_with_parent}


def _end_with_parent() -> None:
    """In a new process: have the kernel send SIGTERM when the parent dies (Linux only; elsewhere it keeps running)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
