import os
import subprocess
import sys
from functools import partial
from subprocess import PIPE

import pytest

from evenglot.corpus import workers
from evenglot.corpus.workers import WorkerError, each, processes_for

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.parametrize("processes", [1, 3])
def test_results_come_in_the_order_of_the_tasks_with_their_labels(processes):
    tasks = [(f"label {number}", str(number)) for number in range(100)]
    assert list(each(int, tasks, processes)) == [(f"label {number}", number) for number in range(100)]


@pytest.mark.parametrize("processes", [1, 3])
def test_an_error_of_a_task_is_raised_after_the_results_before_it(processes):
    results = each(int, [(None, text) for text in ["1", "2", "x", "4", "y"]], processes)
    assert [next(results)[1], next(results)[1]] == [1, 2]
    with pytest.raises(ValueError, match="'x'"):
        next(results)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_reading_tasks_does_not_overtake_those_before_it(processes):
    def tasks(text):
        yield None, "1"
        yield None, text
        raise EOFError("the text ends")

    results = each(int, tasks("2"), processes)
    assert [next(results)[1], next(results)[1]] == [1, 2]
    with pytest.raises(EOFError):
        next(results)
    with pytest.raises(ValueError, match="'x'"):
        list(each(int, tasks("x"), processes))


def test_a_worker_that_dies_is_an_error_and_does_not_hang():
    with pytest.raises(WorkerError):
        list(each(os._exit, [(None, 3)] * 10, 2))


def test_a_worker_that_dies_is_an_error_on_the_command_line_too():
    """There, SIGPIPE ends the process; the tasks are larger than a pipe, so that one is being written."""
    program = (
        "import os, signal; from evenglot.corpus.workers import each\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "try: list(each(os._exit, [(None, 3)] + [(None, bytes(10**7))] * 10, 2))\n"
        "except OSError as error: print(type(error).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=PIPE, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout == "WorkerError\n"


def test_what_a_worker_prints_is_not_taken_for_a_result(capfd):
    assert list(each(partial(print, "hello"), [(None, "you")], 2)) == [(None, None)]
    assert "hello you" in capfd.readouterr().err


def test_workers_end_with_the_iteration():
    program = (
        "import os; from evenglot.corpus.workers import each\n"
        "results = each(abs, [(None, -number) for number in range(100)], 2); next(results); results.close()\n"
        "os.waitpid(-1, os.WNOHANG)"
    )
    done = subprocess.run([sys.executable, "-c", program], stderr=PIPE, text=True, env=ENVIRONMENT, check=False)
    assert "ChildProcessError" in done.stderr  # there is none to wait for


def test_workers_end_when_the_main_process_is_killed():
    program = (
        "import itertools; from evenglot.corpus.workers import each\n"
        "for _, result in each(abs, ((None, -number) for number in itertools.count()), 2): print(result, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=PIPE, stderr=PIPE, env=ENVIRONMENT) as process:
        assert process.stdout.readline() == b"0\n"
        process.kill()
        _, said = process.communicate(timeout=120)  # ends when nobody can write to it any more
    assert said == b""


def test_small_texts_are_worth_no_processes():
    assert processes_for(workers.WORTHWHILE - 1, 4) == 1
    assert processes_for(workers.WORTHWHILE, 4) == 4
    assert processes_for(workers.WORTHWHILE, -1) >= 1
