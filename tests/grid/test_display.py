"""How far a grid is, in lines for files and in bars for terminals."""

import io

import pytest
from rich.console import Console

from evenglot.grid.display import GridDisplay
from evenglot.grid.plan import load_grid
from evenglot.runs.log import Log
from tests.logs import event
from tests.tasks import CONFIG

GRID = "base: conf.yaml\nseeds: [1]\nstrategies: {erm: {}, tau: {balance: {strategy: temperature, tau: 3}}}\n"


@pytest.fixture
def jobs(tmp_path):
    (tmp_path / "conf.yaml").write_text(CONFIG)
    (tmp_path / "grid.yaml").write_text(GRID)
    return load_grid(tmp_path / "grid.yaml")[1]


def display(jobs, runs=2, **options):
    out = io.StringIO()
    return GridDisplay(runs, jobs, 1, Console(file=out, width=80, **options)), out


def train(job, step):
    log = Log(job.run.log_file)
    log.write(event("step", step))
    log.close()


def test_lines_say_what_is_done_and_what_is_left(jobs):
    shown, out = display(jobs)
    with shown:
        for job in jobs:
            shown.begin(job)
            train(job, 24)
            shown.progress(job)
            shown.end(job)
    first, second, third = filter(None, out.getvalue().splitlines())
    assert first == "0 of 2 runs are done; 48 updates in the others."
    assert second.startswith("erm/seed-1: done. 1/2 runs; about ")
    assert third == "tau/seed-1: done. 2/2 runs"


def test_runs_that_were_there_before_are_counted(jobs):
    shown, out = display(jobs[1:])
    with shown:
        shown.begin(jobs[1])
        shown.end(jobs[1])
    assert out.getvalue().splitlines()[0] == "1 of 2 runs are done; 24 updates in the others."
    assert "2/2 runs" in out.getvalue()


def test_a_failure_is_said_at_once_and_as_it_is(jobs):
    shown, out = display(jobs)
    with shown:
        shown.begin(jobs[0])
        shown.failed(jobs[0], "erm/seed-1: [Errno 5] it broke [/] (" + "x" * 100 + ")")
    assert "erm/seed-1: [Errno 5] it broke [/] (" + "x" * 100 + ")" in out.getvalue()


def test_a_failed_run_is_not_done(jobs):
    shown, out = display(jobs)
    with shown:
        for job in jobs:
            shown.begin(job)
        shown.failed(jobs[0], "erm/seed-1: it broke")
        shown.end(jobs[1])
    assert "1/2 runs" in out.getvalue()


def test_a_terminal_shows_bars_for_all_and_for_each_that_runs(jobs):
    shown, out = display(jobs, force_terminal=True)
    with shown:
        train(jobs[0], 12)
        shown.begin(jobs[0])
        shown.progress(jobs[0])
        shown._bars.refresh()
        said = out.getvalue()
    assert "0/2 runs" in said
    assert "erm/seed-1" in said
    assert " 50 %" in said  # of the run
    assert " 25 %" in said  # of all


def test_the_cursor_comes_back_whatever_happens(jobs):
    shown, out = display(jobs, force_terminal=True)
    with pytest.raises(SystemExit), shown:
        raise SystemExit(130)
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")


def test_a_run_that_goes_on_starts_where_it_was(jobs):
    train(jobs[0], 20)
    shown, _ = display(jobs)
    assert shown._done == {"erm/seed-1": 20, "tau/seed-1": 0}
