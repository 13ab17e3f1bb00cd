"""Work on all cores: the same function on many blocks of text, in other processes, with the results in order.

Workers are started as programs of their own, not forked, so that threads of this process and the caller's main module
do not matter. Each is served by a thread, which sends a task and waits for the result. A cluster (on_ray.py) can take
their place.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from evenglot.processor import cores

AHEAD = 3  # tasks per worker that are read in advance: bounds memory
WORTHWHILE = 1 << 23  # bytes of text; with less, starting processes takes longer than the work
PROGRAM = (  # Ctrl-C ends the main process, and that ends this one, also while it starts
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = sys.argv[1:]; "
    "from evenglot.corpus.workers import serve; serve()"
)

Task = TypeVar("Task")
Label = TypeVar("Label")
Result = TypeVar("Result")
Item = TypeVar("Item")


class WorkerError(OSError):
    """A worker process ended before its work was done."""


class Elsewhere(Protocol):
    """Machines that do the work instead of processes of this one."""

    def cpus(self) -> int:
        """How many CPUs they have."""

    def each(
        self, function: Callable[[Task], Result], tasks: Iterable[tuple[Label, Task]], processes: int
    ) -> Generator[tuple[Label, Result], None, None]:
        """As the function `each`."""


_elsewhere: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)


@contextmanager
def instead_of_processes(machines: Elsewhere) -> Iterator[None]:
    """Within this context, `each` leaves the work to these machines, where it is worthwhile."""
    token = _elsewhere.set(machines)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def processes_for(size: int, threads: int) -> int:
    """How many processes to use for text of this size: `threads`, or as many as there are cores if it is -1.

    On other machines, as many as they have CPUs: `threads` is about this one.
    """
    if size < WORTHWHILE:
        return 1
    if (machines := _elsewhere.get()) is not None:
        return max(1, machines.cpus())
    return cores() if threads == -1 else threads


def each(
    function: Callable[[Task], Result], tasks: Iterable[tuple[Label, Task]], processes: int
) -> Generator[tuple[Label, Result], None, None]:
    """The results of a function for labelled tasks, in the order of the tasks, computed by so many processes.

    An error of a task, or one in the iteration over the tasks, is raised after the results of all tasks before it.
    """
    if processes == 1:
        yield from ((label, function(task)) for label, task in tasks)
        return
    if (machines := _elsewhere.get()) is not None:
        yield from machines.each(function, tasks, processes)
        return
    with _broken_pipes_raised():
        yield from _shared(function, tasks, processes)


@contextmanager
def _broken_pipes_raised() -> Iterator[None]:
    """Writing to a worker that ended is an error, and does not end this process, as the command line has it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGPIPE"):
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def _shared(
    function: Callable[[Task], Result], tasks: Iterable[tuple[Label, Task]], processes: int
) -> Generator[tuple[Label, Result], None, None]:
    workers = [_Worker(function) for _ in range(processes)]
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def ask(task: Task) -> Any:
        worker = idle.get()
        try:
            return worker.ask(task)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(processes, thread_name_prefix="workers")
    try:
        submitted = ((label, threads.submit(ask, task)) for label, task in tasks)
        yield from ((label, future.result()) for label, future in ahead(submitted, AHEAD * processes))
    finally:
        for worker in workers:
            worker.end()  # those that are still waited for give up
        threads.shutdown(cancel_futures=True)


def ahead(items: Iterable[Item], count: int) -> Iterator[Item]:
    """The same items, each taken so many places before it is passed on. An error is raised where it belongs."""
    taken: deque[Item] = deque()
    remaining, error = iter(items), None
    while True:
        try:
            taken.append(next(remaining))
        except StopIteration:
            break
        except Exception as found:  # what comes first in the text is told first
            error = found
            break
        if len(taken) > count:
            yield taken.popleft()
    yield from taken
    if error is not None:
        raise error


class _Worker:
    """A process that applies one function to what it is sent."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        command = [sys.executable, "-c", PROGRAM, *sys.path]
        alone = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")  # NumPy's threads, per worker
        environment = {**os.environ, **alone}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._function: Callable[[Any], Any] | None = function  # sent with the first task

    def ask(self, task: Any) -> Any:
        """The result of the function, or its exception, raised."""
        try:
            if self._function is not None:
                pickle.dump(self._function, self._to, pickle.HIGHEST_PROTOCOL)
                self._function = None
            pickle.dump(task, self._to, pickle.HIGHEST_PROTOCOL)
            self._to.flush()
            result, error = pickle.load(self._from)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as failed:
            raise WorkerError("a worker process ended unexpectedly; is there enough memory?") from failed
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        """Stop the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._to, self._from):
            try:
                pipe.close()
            except OSError:  # what was not sent cannot be sent any more
                continue


def serve() -> None:
    """The life of a worker: read a function, then tasks, until the other side is gone."""
    with os.fdopen(os.dup(0), "rb") as tasks, os.fdopen(os.dup(1), "wb") as results:
        os.dup2(2, 1)  # whatever is printed must not be mistaken for a result
        try:
            function = pickle.load(tasks)
            while True:
                outcome = attempt(function, pickle.load(tasks))
                sys.stdout.flush()  # the other side may end this process as soon as it has the result
                pickle.dump(outcome, results, pickle.HIGHEST_PROTOCOL)
                results.flush()
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):  # the last: in the middle of a task
            os._exit(0)


def attempt(function: Callable[[Any], Any], task: Any) -> tuple[Any, Exception | None]:
    """The result of the function, or its exception."""
    try:
        return function(task), None
    except Exception as error:  # raised in the main process
        return None, error
