"""`evenglot prepare --on ray`: the work on blocks of text is done by all CPUs of a Ray cluster.

Functions, tasks and results travel as pickles, as between local processes. Ray would otherwise hand out arrays that
cannot be written to, and keep every result in its memory as long as one of its arrays is in use.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pickle import HIGHEST_PROTOCOL
from typing import Any

from evenglot.corpus.workers import AHEAD, Label, Result, Task, WorkerError, ahead, attempt, instead_of_processes
from evenglot.ray_cluster import RETRIES, connected


@contextmanager
def on_ray() -> Iterator[None]:
    """Within this context, `each` uses the cluster instead of local processes."""
    with connected() as ray, instead_of_processes(Cluster(ray)):
        yield


class Cluster:
    """The CPUs of a Ray cluster."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def cpus(self) -> int:
        """How many there are now, on all machines."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def each(
        self, function: Callable[[Task], Result], tasks: Iterable[tuple[Label, Task]], processes: int
    ) -> Generator[tuple[Label, Result], None, None]:
        """The results in the order of the tasks. Tasks of lost workers and machines are done again: they are pure."""
        shared = self.ray.put(pickle.dumps(function, HIGHEST_PROTOCOL))  # sent to each machine once
        work = self.ray.remote(num_cpus=1, max_retries=RETRIES)(do_task)
        submitted = ((label, work.remote([shared], pickle.dumps(task, HIGHEST_PROTOCOL))) for label, task in tasks)
        for label, promised in ahead(submitted, AHEAD * processes):
            yield label, self._result(promised)

    def _result(self, promised: Any) -> Any:
        try:
            result, error = pickle.loads(self.ray.get(promised))
        except self.ray.exceptions.RayError as failed:
            raise WorkerError(f"--on ray: {str(failed).strip().splitlines()[-1]}") from failed
        if error is not None:
            raise error
        return result


def do_task(shared: list[Any], task: bytes) -> bytes:
    """On a machine of the cluster: apply a function to a task.

    `shared` holds a reference to the function. Were it an argument of its own, Ray would fetch it for every task.
    """
    return pickle.dumps(attempt(_function(shared[0]), pickle.loads(task)), HIGHEST_PROTOCOL)


@lru_cache(maxsize=1)  # a worker keeps the function of its last task, with the vocabularies that it has loaded
def _function(shared: Any) -> Callable[[Any], Any]:
    import ray

    function: Callable[[Any], Any] = pickle.loads(ray.get(shared))
    return function
