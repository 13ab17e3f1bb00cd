"""Finished runs as small files: complete, without paths of a machine, and only for the settings they had."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.comparison.results import read_result
from evenglot.files import without_paths
from evenglot.grid.keep import keep, kept, restore_baselines
from evenglot.grid.plan import load_grid
from evenglot.grid.work import grid_results, run_grid
from evenglot.runs.log import Log
from evenglot.runs.run import Run, RunError
from evenglot.scoring.statistics import Statistics
from tests.logs import event
from tests.tasks import CONFIG

GRID = """\
base: conf.yaml
seeds: [1]
strategies:
  erm: {balance: {strategy: proportional}}
  chi: {balance: {strategy: chi-ibr, rho: 0.1, baseline: erm}}
"""


def finish(job) -> None:
    """Write what a finished run leaves behind, as far as grids look into it."""
    run = job.run
    run.folder.mkdir(parents=True, exist_ok=True)
    job.config.save(run.config_file)
    log = Log(run.log_file)
    names = list(job.config.data.groups)
    config = job.config.model_dump(mode="json", by_alias=True)
    facts = {name: {"pairs": 10, "p": 1 / len(names), "q": 1 / len(names)} for name in names}
    log.write(event("config", 0, config=config, strategy=job.config.balance.strategy, directions=facts, reference=None))
    log.write(event("checkpoint", 24, folder=str(run.folder / "checkpoints" / "step-24")))
    log.write(event("done", 24, reason="updates", tokens=100, seconds=1.0))
    log.close()
    counts = {name: {"loss": np.ones((4, 2))} for name in names}
    Statistics(counts, dict.fromkeys(names, "r")).save(run.folder / "statistics.npz")
    (run.folder / "scores.json").write_text(json.dumps({"signature": {}}))


@pytest.fixture
def plan(tmp_path):
    """The grid of a text; all runs are finished."""
    home = tmp_path / "machine"
    home.mkdir()
    (home / "conf.yaml").write_text(CONFIG)

    def planned(text=GRID):
        (home / "grid.yaml").write_text(text)
        grid, jobs = load_grid(home / "grid.yaml")
        for job in jobs:
            finish(job)
            if job.needs:
                job.needs[1].write_text(json.dumps({"losses": {"aa-en": 2.0}}))
        return grid, jobs

    return planned


def keep_all(jobs, grid, folder):
    for job in jobs:
        keep(job, grid.split, folder, Path(grid.base).parent)


def is_kept(job, grid, folder):
    return kept(job, grid.split, grid.beam, folder, Path(grid.base).parent)


def test_what_is_kept_is_small_and_has_no_path_of_this_machine(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    files = sorted(file.relative_to(tmp_path / "kept").as_posix() for file in (tmp_path / "kept").rglob("*.*"))
    usual = ["config.yaml", "log.jsonl", "scores.json", "statistics.npz"]
    assert files == [
        *(f"chi/seed-1/{name}" for name in usual),
        *sorted(f"erm/seed-1/{name}" for name in [*usual, "baseline-train-token.json"]),
    ]
    for name in files:
        assert str(tmp_path).encode() not in (tmp_path / "kept" / name).read_bytes()
    config = (tmp_path / "kept" / "chi" / "seed-1" / "config.yaml").read_text()
    assert "baseline: erm/seed-1/baseline-train-token.json\n" in config  # known by the run it is of


def test_a_kept_run_gives_the_same_result(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    here, there = (
        read_result(Run(folder), "erm", "test") for folder in (jobs[0].run.folder, tmp_path / "kept" / "erm" / "seed-1")
    )
    for key in ("seed", "strategy", "tau", "pairs", "passes", "cost", "signature"):
        assert getattr(here, key) == getattr(there, key)
    shutil.rmtree(jobs[0].run.folder.parent.parent)
    results = grid_results(grid, jobs, tmp_path / "kept")
    assert [result.row for result in results[None]] == ["erm", "chi"]


def test_it_is_known_by_its_settings(plan, tmp_path):
    grid, jobs = plan()
    assert not is_kept(jobs[0], grid, tmp_path / "kept")
    keep_all(jobs, grid, tmp_path / "kept")
    assert all(is_kept(job, grid, tmp_path / "kept") for job in jobs)


def test_also_on_another_machine(plan, tmp_path):
    """Where the project lies elsewhere, and the corpora too."""
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    moved = Path(shutil.copytree(tmp_path / "machine", tmp_path / "other" / "deeper"))
    (moved / "conf.yaml").write_text(CONFIG.replace("train: train.", "train: /corpora/train."))
    grid, jobs = load_grid(moved / "grid.yaml")
    assert all(is_kept(job, grid, tmp_path / "kept") for job in jobs)


def test_wherever_the_runs_were_made(plan, tmp_path):
    """A baseline is known by the run it is of, not by its path."""
    far_away = GRID + f"out: {tmp_path / 'far' / 'away'}\n"
    for made, asked in ((far_away, GRID), (GRID, far_away)):
        grid, jobs = plan(made)
        keep_all(jobs, grid, tmp_path / "kept")
        grid, jobs = plan(asked)
        assert all(is_kept(job, grid, tmp_path / "kept") for job in jobs)
    grid, jobs = plan(GRID.replace("baseline: erm", "baseline: flat") + "  flat: {balance: {strategy: uniform}}\n")
    with pytest.raises(RunError, match=r"was made with other settings \(balance.baseline\)"):
        is_kept(next(job for job in jobs if job.strategy == "chi"), grid, tmp_path / "kept")


def test_scores_of_another_split_remain(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    for name in ("scores{}.json", "statistics{}.npz"):
        shutil.copy(jobs[0].run.folder / name.format(""), jobs[0].run.folder / name.format("-valid"))
    valid, jobs = plan(GRID + "split: valid\n")
    assert not is_kept(jobs[0], valid, tmp_path / "kept")
    keep(jobs[0], "valid", tmp_path / "kept", Path(grid.base).parent)
    assert is_kept(jobs[0], valid, tmp_path / "kept")
    assert is_kept(jobs[0], grid, tmp_path / "kept")


def test_scores_without_their_statistics_are_not_enough(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    (tmp_path / "kept" / "erm" / "seed-1" / "statistics.npz").unlink()
    assert not is_kept(jobs[0], grid, tmp_path / "kept")
    assert len(grid_results(grid, jobs, tmp_path / "kept")[None]) == 2  # that of the run itself is there


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [("rho: 0.1", "rho: 0.2", "balance.rho"), ("updates: 24", "updates: 25", "train.updates")],
)
def test_a_run_with_other_settings_is_refused(plan, tmp_path, old, new, key):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    for name in ("conf.yaml", "grid.yaml"):
        file = tmp_path / "machine" / name
        file.write_text(file.read_text().replace(old, new))
    grid, jobs = load_grid(tmp_path / "machine" / "grid.yaml")
    with pytest.raises(RunError, match=rf"chi/seed-1: was made with other settings \({key}\)"):
        is_kept(jobs[1], grid, tmp_path / "kept")


def test_so_is_one_of_other_directions(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    file = tmp_path / "machine" / "conf.yaml"
    file.write_text(CONFIG.replace("[aa, bb, cc]", "[aa, bb]"))
    grid, jobs = load_grid(tmp_path / "machine" / "grid.yaml")
    with pytest.raises(RunError, match="other settings"):
        is_kept(jobs[0], grid, tmp_path / "kept")


def test_threads_of_a_machine_do_not_matter(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    file = tmp_path / "machine" / "conf.yaml"
    file.write_text(CONFIG.replace("threads: 1", "threads: 2"))
    grid, jobs = load_grid(tmp_path / "machine" / "grid.yaml")
    assert is_kept(jobs[0], grid, tmp_path / "kept")


def test_options_that_it_did_not_know_yet_have_their_defaults(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    file = tmp_path / "kept" / "chi" / "seed-1" / "config.yaml"
    older, removed = re.subn(r"^  (estimator|ema): .*\n", "", file.read_text(), flags=re.MULTILINE)
    assert removed == 2
    file.write_text(older)
    assert is_kept(jobs[1], grid, tmp_path / "kept")


def test_a_kept_schedule_can_be_read(plan, tmp_path):
    grid, jobs = plan(GRID.replace("{strategy: proportional}", "{strategy: schedule, points: {0: tau:5, 2: data}}"))
    keep_all(jobs, grid, tmp_path / "kept")
    assert is_kept(jobs[0], grid, tmp_path / "kept")
    run = Run(tmp_path / "kept" / jobs[0].name)
    assert run.config().balance.options["points"] == {0: "tau:5", 2: "data"}


def test_settings_that_cannot_be_read_are_named(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    (tmp_path / "kept" / "erm" / "seed-1" / "config.yaml").write_text("a: [")
    with pytest.raises(RunError, match="erm/seed-1/config.yaml: cannot be read"):
        is_kept(jobs[0], grid, tmp_path / "kept")


def test_baselines_go_back_where_other_runs_look_for_them(plan, tmp_path):
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    shutil.rmtree(tmp_path / "machine" / "runs")
    restore_baselines(jobs[0], tmp_path / "kept")
    assert json.loads(jobs[1].needs[1].read_text()) == {"losses": {"aa-en": 2.0}}


def test_a_grid_of_which_all_is_kept_runs_nothing(plan, tmp_path):
    """Its stores are not even prepared: there is no text here to prepare."""
    grid, jobs = plan()
    keep_all(jobs, grid, tmp_path / "kept")
    shutil.rmtree(tmp_path / "machine" / "runs")
    run_grid(grid, jobs, keep_in=tmp_path / "kept")
    assert not (tmp_path / "machine" / "store").exists()


def test_runs_that_were_finished_before_are_kept_too_and_checkpoints_removed(plan, tmp_path):
    grid, jobs = plan(GRID + "checkpoints: remove\n")
    checkpoints = jobs[0].run.checkpoints / "step-24"
    checkpoints.mkdir(parents=True)
    run_grid(grid, jobs, keep_in=tmp_path / "kept")
    assert all(is_kept(job, grid, tmp_path / "kept") for job in jobs)
    assert not jobs[0].run.checkpoints.exists()


def test_checkpoints_are_removed_also_where_nothing_is_kept(plan):
    """The grid was killed after the last command and before it had tidied up."""
    grid, jobs = plan(GRID + "checkpoints: remove\n")
    (jobs[0].run.checkpoints / "step-24").mkdir(parents=True)
    run_grid(grid, jobs)
    assert not jobs[0].run.checkpoints.exists()


# ---------------------------------------------------------------------------------------------------- paths

ROOT = Path("/home/somebody/project")
VALUES = st.recursive(
    st.sampled_from(["/home/somebody/project/runs/a", "/elsewhere/deep/b", "plain", "a/b", "", 3, None, 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_no_absolute_path_remains_anywhere(value):
    found = json.dumps(without_paths(value, ROOT))
    assert "/home" not in found
    assert "/elsewhere" not in found
    assert without_paths(without_paths(value, ROOT), ROOT) == without_paths(value, ROOT)


def test_paths_below_the_root_are_relative_to_it_and_of_others_the_last_part_remains():
    value = {"a": ["/home/somebody/project/x/y.json", "/data/z.txt"], "b": "x/y", "c": 1}
    assert without_paths(value, ROOT) == {"a": ["x/y.json", "z.txt"], "b": "x/y", "c": 1}


def test_paths_inside_a_message_too():
    said = without_paths({"message": "cannot read /home/somebody/project/x: gone"}, ROOT)
    assert "somebody" not in said["message"]


# ---------------------------------------------------------------------------------------------------- the command


def test_json_of_several_sets_of_directions_is_json(plan, tmp_path):
    plan(GRID + "directions:\n  in: {from: [aa, bb], to: en}\n  out: {from: en, to: [aa, bb]}\n")
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "machine" / "grid.yaml"), "--format", "json"])
    assert done.exit_code == 0
    assert {"in", "out"} <= set(json.loads(done.stdout))
