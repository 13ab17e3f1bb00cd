"""`evenglot grid` on runs that exist: what it prints, writes and refuses."""

import json
import shutil
import signal

import pytest
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.files import LockedError, lock
from evenglot.grid.work import OUTPUT, run_grid
from tests.grid.folder import names, times


def command(grid, *options):
    return CliRunner().invoke(app, ["grid", str(grid.file), *map(str, options)])


def test_a_complete_grid_is_compared_and_nothing_is_run(complete):
    before = times(complete.folder / "runs")
    done = command(complete, "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["reference"] == "erm"
    after = times(complete.folder / "runs")
    assert {file: after[file] for file in before} == before
    assert {file.name for file in after.keys() - before.keys()} == {
        "comparison.json",
        "comparison.md",
        "comparison.tex",
    }
    assert not list(complete.folder.rglob(OUTPUT))


def test_tables_go_to_another_folder_if_asked(complete, tmp_path):
    assert command(complete, "--out", tmp_path / "tables", "--reference", "chi").exit_code == 0
    assert json.loads((tmp_path / "tables" / "comparison.json").read_text())["reference"] == "chi"
    assert not (complete.folder / "runs" / "comparison.json").exists()


def test_the_grid_file_names_the_reference(complete):
    complete.write(reference="chi")
    assert json.loads(command(complete, "--format", "json").stdout)["reference"] == "chi"


def test_several_sets_of_directions_are_one_json_object(complete, tmp_path):
    """Stored runs stand for both sets, as they are the same."""
    run_grid(*complete.load(), keep_in=tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / "first")
    for name in ("one", "two"):
        shutil.copytree(tmp_path / "first", tmp_path / "kept" / name)
    complete.write(directions={name: {"from": ["aa", "bb", "cc"], "to": "en"} for name in ("one", "two")})
    done = command(complete, "--keep", tmp_path / "kept", "--format", "json")
    assert done.exit_code == 0, done.output
    assert {name: part["reference"] for name, part in json.loads(done.stdout).items()} == {"one": "erm", "two": "erm"}
    assert all((complete.folder / "runs" / name / "comparison.tex").exists() for name in ("one", "two"))


def test_an_unknown_reference_is_refused_before_anything_runs(grid):
    done = command(grid, "--reference", "emr")
    assert isinstance(done.exception, ValueError)
    assert not (grid.folder / "runs").exists()


def test_a_mistake_in_the_grid_is_one_line(grid):
    grid.write(strategis={})
    done = command(grid)
    assert isinstance(done.exception, ValueError)
    assert str(done.exception).count("\n") == 0
    assert f"{grid.file}:" in str(done.exception)


def test_a_folder_is_not_a_grid_file(grid):
    done = CliRunner().invoke(app, ["grid", str(grid.folder)])
    assert isinstance(done.exception, ValueError)
    assert "evenglot compare" in str(done.exception)


def test_two_do_not_work_on_one_grid(complete):
    with lock(complete.folder / "runs", ""), pytest.raises(LockedError):
        run_grid(*complete.load())
    assert run_grid(*complete.load()) == []


def test_signal_handlers_are_restored(complete):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    run_grid(*complete.load())
    assert [signal.getsignal(number) for number in numbers] == before


def test_jobs_are_named_as_their_folders(complete):
    grid, jobs = complete.load()
    assert names(jobs) == [job.run.folder.relative_to(grid.out).as_posix() for job in jobs]
