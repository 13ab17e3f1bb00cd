"""Running a grid in real processes: order, failures, interruptions, and nothing trained twice."""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from evenglot.grid.work import OUTPUT, run_grid
from evenglot.processor import threads
from evenglot.scoring.sentence_statistics import SentenceStatistics
from tests.grid.folder import CHI, GridFolder, times
from tests.training.commands import Command, descendants, events, finish, kill_all, wait_until

FLAT = {"flat": {"balance": {"strategy": "uniform"}}}
DIVERGES = {"train": {"learning_rate": 1e30}}
LONG = 300  # updates: long enough to be caught on the way
LOSSES = "baseline-train-token.json"


def scores_of(folder: Path) -> dict[Path, dict]:
    """Of all runs; times are not in them."""
    return {file.parent.relative_to(folder): json.loads(file.read_text()) for file in folder.rglob("scores.json")}


def statistics_of(folder: Path) -> dict:
    return {
        (file.parent.relative_to(folder), name, metric): counts
        for file in folder.rglob("statistics.npz")
        for name, by_metric in SentenceStatistics.load(file).counts.items()
        for metric, counts in by_metric.items()
    }


def same_results(left: Path, right: Path) -> bool:
    mine, theirs = statistics_of(left), statistics_of(right)
    return (
        scores_of(left) == scores_of(right)
        and mine.keys() == theirs.keys()
        and all(np.array_equal(mine[key], theirs[key]) for key in mine)
    )


def kinds(failures) -> dict[str, str]:
    return {failure.job: failure.kind for failure in failures}


def error_lines(said: str) -> list[str]:
    """What `evenglot` ends with, by run."""
    return [line.split(": ")[1] for line in said.splitlines() if line.startswith("evenglot: ") and line.count(": ") > 1]


@pytest.fixture(scope="module")
def uninterrupted(conf, tmp_path_factory):
    """A grid that ran from start to end; what it printed is in 'said'."""
    grid = GridFolder(tmp_path_factory.mktemp("grid"), conf)
    finish("grid", grid.file, output=grid.folder / "said")
    return grid


# ---------------------------------------------------------------------------------------------- order


@pytest.mark.slow
def test_each_run_is_trained_and_scored_and_all_are_compared(uninterrupted):
    for strategy in ("erm", "chi"):
        run = uninterrupted.run(strategy)
        assert [event["reason"] for event in events(run.folder, "done")] == ["updates"]
        assert (run.folder / "scores.json").exists()
        assert (run.folder / OUTPUT).stat().st_size > 0
    content = json.loads((uninterrupted.folder / "runs" / "comparison.json").read_text())
    assert [row["name"] for row in content["rows"]] == ["erm", "chi"]


@pytest.mark.slow
def test_baselines_are_computed_before_they_are_needed(uninterrupted):
    losses = json.loads((uninterrupted.run("erm").folder / LOSSES).read_text())["losses"]
    chi = uninterrupted.run("chi")
    assert events(chi.folder, "config")[0]["reference"]["updates"] == 24
    first = events(chi.folder, "balance")[0]
    assert first["baseline"] == pytest.approx(losses)


@pytest.mark.slow
def test_a_second_start_trains_nothing(uninterrupted, tmp_path):
    before = {file: time for file, time in times(uninterrupted.folder).items() if "comparison" not in file.name}
    finish("grid", uninterrupted.file, output=tmp_path / "said")
    after = times(uninterrupted.folder)
    assert {file: after[file] for file in before} == before


@pytest.mark.slow
def test_runs_at_the_same_time_share_the_cores_and_end_the_same(uninterrupted, grid, tmp_path):
    grid.write(FLAT | {"flat": {**FLAT["flat"], "train": {"threads": None}}}, seeds=[1, 2])
    finish("grid", grid.file, "--jobs", "2", output=tmp_path / "said")
    mine, theirs = scores_of(grid.folder), scores_of(uninterrupted.folder)
    assert set(map(str, mine)) == {
        f"runs/{strategy}/seed-{seed}" for strategy in ("erm", "chi", "flat") for seed in (1, 2)
    }
    assert {path: mine[path] for path in theirs} == theirs
    assert grid.run("flat").config().train.threads == threads(2)
    assert grid.run("erm").config().train.threads == 1  # as the base says


# ---------------------------------------------------------------------------------------------- failures


def test_a_failed_run_blocks_only_those_that_need_its_losses(grid):
    failures = run_grid(*grid.load({"erm": DIVERGES}))
    assert kinds(failures) == {"erm/seed-1": "failed", "chi/seed-1": "blocked"}
    output = grid.run("erm").folder / OUTPUT
    assert output.read_text().splitlines()[-1].removeprefix("evenglot: ") in str(failures[0])
    assert str(output) in str(failures[0])
    assert not grid.run("chi").folder.exists()


@pytest.mark.slow
def test_the_others_are_trained_and_compared(grid, tmp_path):
    grid.write({"chi": DIVERGES, **FLAT})
    with Command("grid", grid.file, output=tmp_path / "said") as command:
        assert command.wait() == 2
    assert "Traceback" not in command.said
    assert error_lines(command.said) == ["chi/seed-1"]
    content = json.loads((grid.folder / "runs" / "comparison.json").read_text())
    assert [row["name"] for row in content["rows"]] == ["erm", "flat"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_somebody_ends_is_not_scored_and_resumes_with_the_next_start(grid, tmp_path, number):
    grid.write({"erm": {"train": {"updates": LONG}}})
    with Command("grid", grid.file, output=tmp_path / "said") as command:
        assert wait_until(lambda: training(grid, "erm", 8), lambda: command.runs), command.said
        (process,) = descendants(command.members[0].pid)
        os.kill(process, number)
        assert command.wait() == 2
    assert error_lines(command.said) == ["erm/seed-1", "chi/seed-1"]
    assert ("SIGKILL" in command.said) == (number == signal.SIGKILL)
    assert not (grid.run("erm").folder / "scores.json").exists()
    finish("grid", grid.file, output=tmp_path / "said")
    assert events(grid.run("erm").folder, "done")[-1]["step"] == LONG
    assert (grid.run("chi").folder / "scores.json").exists()


# ---------------------------------------------------------------------------------------------- interruptions


def training(grid: GridFolder, strategy: str, step: int) -> bool:
    found = events(grid.run(strategy).folder, "step")
    return bool(found) and found[-1]["step"] >= step


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "step"), [("erm", 8), ("erm", 24), ("chi", 12)])
def test_after_a_power_cut_it_resumes_and_ends_the_same(uninterrupted, grid, tmp_path, strategy, step):
    with Command("grid", grid.file, output=tmp_path / "said") as command:
        assert wait_until(lambda: training(grid, strategy, step), lambda: command.runs), command.said
        kill_all([command.members[0].pid, *descendants(command.members[0].pid)])
        command.wait()
    finish("grid", grid.file, output=tmp_path / "said")
    assert same_results(grid.folder, uninterrupted.folder)


@pytest.mark.slow
def test_a_run_that_outlives_its_grid_keeps_the_lock(grid, tmp_path):
    """Only the grid is killed: its run is asked to end, and meanwhile no other grid works in the same folder."""
    grid.write({"erm": {"train": {"updates": LONG}}})
    with Command("grid", grid.file, output=tmp_path / "said") as command:
        assert wait_until(lambda: training(grid, "erm", 8), lambda: command.runs), command.said
        orphans = descendants(command.members[0].pid)
        os.kill(command.members[0].pid, signal.SIGKILL)
        command.wait()
    try:
        with Command("grid", grid.file, output=tmp_path / "said") as command:
            assert command.wait() in (0, 2), command.said  # 2: the run was still saving
        assert "Traceback" not in command.said
        assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans), lambda: True)
        finish("grid", grid.file, output=tmp_path / "said")
    finally:
        kill_all(orphans)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_asked_to_end_it_lets_the_runs_save_and_resumes_later(uninterrupted, grid, tmp_path, number):
    with Command("grid", grid.file, output=tmp_path / "said") as command:
        assert wait_until(lambda: training(grid, "erm", 8), lambda: command.runs), command.said
        assert wait_until(lambda: bool(descendants(command.members[0].pid)), lambda: command.runs), command.said
        children = descendants(command.members[0].pid)
        command.signal(number)
        assert command.wait() == 128 + number
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert "Traceback" not in command.said
    run = grid.run("erm")
    if (done := events(run.folder, "done"))[-1]["reason"] == "stopped":  # or it was faster than the signal
        assert (run.checkpoints / f"step-{done[-1]['step']:08d}").exists()
    finish("grid", grid.file, output=tmp_path / "said")
    assert same_results(grid.folder, uninterrupted.folder)


# ---------------------------------------------------------------------------------------------- what is repeated


@pytest.mark.slow
def test_a_longer_run_computes_its_losses_anew(grid):
    """As long as nobody was trained against them."""
    assert run_grid(*grid.load({"chi": DIVERGES})) != []
    shutil.rmtree(grid.run("chi").folder)
    file = grid.run("erm").folder / LOSSES
    before = file.read_bytes()
    assert run_grid(*grid.load({"erm": {"train": {"updates": 30}}})) == []
    assert file.read_bytes() != before
    assert events(grid.run("chi").folder, "config")[0]["reference"]["updates"] == 30
    assert events(grid.run("erm").folder, "resume")[0]["step"] == 24


@pytest.mark.slow
def test_a_run_without_checkpoints_is_trained_again_if_a_new_strategy_needs_its_losses(grid):
    """The losses that another run was trained against stay as they are."""
    assert run_grid(*grid.load(checkpoints="remove")) == []
    erm = grid.run("erm")
    assert not erm.checkpoints.exists()
    before = times(erm.folder)[erm.folder / LOSSES]
    new = {"valid": {"balance": {**CHI, "signal": "valid"}}}
    assert run_grid(*grid.load(new, checkpoints="remove")) == []
    assert (grid.run("valid").folder / "scores.json").exists()
    assert (erm.folder / "baseline-valid-token.json").exists()
    assert times(erm.folder)[erm.folder / LOSSES] == before
    assert len(events(grid.run("chi").folder, "config")) == 1


@pytest.mark.slow
def test_stored_runs_are_not_trained_again(uninterrupted, grid, tmp_path):
    """Also not for their baselines: only what is new is trained."""
    run_grid(*uninterrupted.load(), keep_in=tmp_path / "kept")
    shutil.rmtree(tmp_path / "kept" / "chi")
    assert run_grid(*grid.load(), keep_in=tmp_path / "kept") == []
    assert not grid.run("erm").log_file.exists()
    assert events(grid.run("chi").folder, "done")
    assert same_results(tmp_path / "kept", uninterrupted.folder / "runs")
    for file in (tmp_path / "kept").rglob("*.*"):
        assert str(tmp_path).encode() not in file.read_bytes()
        assert str(uninterrupted.folder).encode() not in file.read_bytes()


@pytest.mark.slow
def test_unless_a_new_strategy_needs_losses_that_were_not_stored(uninterrupted, grid, tmp_path):
    run_grid(*uninterrupted.load(), keep_in=tmp_path / "kept")
    (tmp_path / "kept" / "erm" / "seed-1" / LOSSES).unlink()
    shutil.rmtree(tmp_path / "kept" / "chi")
    assert run_grid(*grid.load(), keep_in=tmp_path / "kept") == []
    assert grid.run("erm").log_file.exists()
    assert same_results(tmp_path / "kept", uninterrupted.folder / "runs")
