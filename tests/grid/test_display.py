"""Progress of a grid: lines in files, bars in terminals."""

import io
import re

import pytest
from rich.console import Console

from evenglot.grid.display import GridDisplay
from evenglot.runs.log import Log
from tests.grid.folder import GridFolder
from tests.logs import event
from tests.tasks import CONFIG

UPDATES = 24


@pytest.fixture
def jobs(tmp_path):
    """Two runs; the text they would be trained on does not exist."""
    (tmp_path / "conf.yaml").write_text(CONFIG)
    return GridFolder(tmp_path, tmp_path / "conf.yaml").load()[1]


def display(jobs, runs=2, **options):
    out = io.StringIO()
    return GridDisplay(runs, jobs, 1, Console(file=out, width=80, **options)), out


def train(job, step):
    log = Log(job.run.log_file)
    log.write(event("step", step))
    log.close()


def numbers(line):
    return [int(found) for found in re.findall(r"(?<![\w-])\d+", line)]


def test_each_line_counts_the_complete_runs(jobs):
    shown, out = display(jobs)
    with shown:
        for job in jobs:
            shown.begin(job)
            train(job, UPDATES)
            shown.progress(job)
            shown.end(job)
    start, first, second = filter(None, out.getvalue().splitlines())
    assert numbers(start) == [0, 2, 2 * UPDATES]
    assert first.startswith("erm/seed-1: ")
    assert "1/2" in first
    assert "left" in first
    assert second.startswith("chi/seed-1: ")
    assert "2/2" in second
    assert "left" not in second


def test_runs_that_were_complete_before_are_counted(jobs):
    shown, out = display(jobs[1:])
    with shown:
        shown.begin(jobs[1])
        shown.end(jobs[1])
    start, end = filter(None, out.getvalue().splitlines())
    assert numbers(start) == [1, 2, UPDATES]
    assert "2/2" in end


def test_a_failure_is_printed_at_once_and_unchanged(jobs):
    message = "erm/seed-1: [Errno 5] it broke [/] (" + "x" * 100 + ")"
    shown, out = display(jobs)
    with shown:
        shown.begin(jobs[0])
        shown.failed(jobs[0], message)
        assert message in out.getvalue().splitlines()


def test_a_failed_run_is_not_complete(jobs):
    shown, out = display(jobs)
    with shown:
        for job in jobs:
            shown.begin(job)
        shown.failed(jobs[0], "erm/seed-1: it broke")
        shown.end(jobs[1])
    assert "1/2" in out.getvalue().strip().splitlines()[-1]


def test_a_terminal_shows_bars_for_all_runs_and_for_each_running_one(jobs):
    shown, out = display(jobs, force_terminal=True)
    with shown:
        train(jobs[0], UPDATES // 2)
        shown.begin(jobs[0])
        shown.progress(jobs[0])
    everything, running = last_screen(out)
    assert "0/2" in everything
    assert " 25 %" in everything
    assert running.startswith("erm/seed-1 ")
    assert " 50 %" in running


def test_a_run_that_resumes_starts_where_it_was(jobs):
    train(jobs[0], 18)
    shown, out = display(jobs, force_terminal=True)
    with shown:
        shown.begin(jobs[0])
    everything, running = last_screen(out)
    assert " 38 %" in everything
    assert " 75 %" in running


def last_screen(out):
    """The bars as they were left, without colours."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "\n")
    return [line.strip() for line in plain.splitlines() if "%" in line][-2:]


def test_the_cursor_is_restored_whatever_happens(jobs):
    shown, out = display(jobs, force_terminal=True)
    with pytest.raises(SystemExit), shown:
        raise SystemExit(130)
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")
