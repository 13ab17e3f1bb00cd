"""`evenglot grid --on ray`: Ray decides on which machine of a cluster a run is trained.

The machines share a disk. If one is lost, Ray starts its runs again on another, where they resume from their last
checkpoint.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from evenglot.files import LockedError, lock
from evenglot.grid.plan import Job
from evenglot.grid.process import JobError, Working
from evenglot.ray_cluster import RETRIES, connected

SECONDS_BETWEEN_LOOKS = 0.5
PATIENCE = 120  # seconds to wait for what a lost machine has locked


class OnRay:
    """The Ray cluster that RAY_ADDRESS names, or that this machine belongs to."""

    def __init__(self, jobs: Sequence[Job], at_once: int | None = None, gpus_per_run: int = 1) -> None:
        """`at_once`: by default, all runs are handed to Ray at once, which starts as many as it has resources for."""
        self._connection = connected()
        self.at_once, self.processes = at_once or len(jobs), gpus_per_run

    def __enter__(self) -> Self:
        self.ray = self._connection.__enter__()
        self.gpus = int(self.ray.cluster_resources().get("GPU", 0))
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__(None, None, None)

    def threads(self, job: Job) -> int | None:
        """CPU threads of each process of a run: as configured, or 1."""
        return job.config.train.threads or 1

    def start(self, job: Job, commands: Sequence[list[str]], held: Sequence[int]) -> RayWork:
        """Hand a run to Ray."""
        on_gpu = self.gpus > 0 and job.config.train.device != "cpu"
        options = {
            "num_cpus": (self.threads(job) or 1) * self.processes,
            "num_gpus": self.processes if on_gpu else 0,
            "max_retries": RETRIES,
            "name": job.name,
        }
        task = self.ray.remote(**options)(run_commands)
        return RayWork(self.ray, job, task.remote(job, list(commands), self.processes))


class RayWork:
    """A run that Ray has started or will start."""

    def __init__(self, ray: Any, job: Job, result: Any) -> None:
        self.ray, self.job, self.result = ray, job, result

    def advance(self) -> bool:
        """False when the run is complete. JobError if it failed."""
        done, _ = self.ray.wait([self.result], timeout=0)
        if not done:
            return True
        try:
            failure = self.ray.get(self.result)
        except self.ray.exceptions.RayError as error:
            last = str(error).strip().splitlines()[-1]
            raise JobError(self.job.name, "failed", f"Ray: {last}") from error
        if failure is not None:
            kind, message = failure
            raise JobError(self.job.name, kind, message)
        return False

    def stop(self) -> None:
        """Ask the run to end; training saves a checkpoint first."""
        self.ray.cancel(self.result)

    def wait(self) -> None:
        """Wait until it has ended."""
        self.ray.wait([self.result])


def run_commands(job: Job, commands: list[list[str]], processes: int) -> tuple[str, str] | None:
    """On a machine of the cluster: run these commands. Returns the kind and message of a failure."""
    _wait_for_folder(job)
    work = Working(job, deque(commands), processes)
    try:
        while work.advance():
            time.sleep(SECONDS_BETWEEN_LOOKS)
    except JobError as error:
        return error.kind, str(error).removeprefix(f"{job.name}: ")
    finally:
        work.stop()
        work.wait()
    return None


def _wait_for_folder(job: Job) -> None:
    """A process of a lost machine may still be saving a checkpoint, or its disk may still hold its lock."""
    if not job.run.folder.exists():
        return
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:  # afterwards, training says who is in the way
        with suppress(LockedError), lock(job.run.folder, ""):
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)
