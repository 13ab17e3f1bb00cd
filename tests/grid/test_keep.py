"""Results of completed runs in a --keep folder: complete, without local paths, and only for the settings they had."""

import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.comparison.scored_run import read_scored_run
from evenglot.files import without_paths
from evenglot.grid.status import grid_results, grid_status
from evenglot.grid.work import run_grid
from evenglot.reporting.page_data import run_data
from evenglot.runs.run import ChangedSettingsError, Run, RunError
from tests.grid.folder import GridFolder, names
from tests.tasks import CONFIG

RUNS = ["erm/seed-1", "chi/seed-1"]


@pytest.fixture
def stored(complete, tmp_path):
    """The folder in which the results of a complete grid are stored."""
    assert run_grid(*complete.load(), keep_in=tmp_path / "kept") == []
    return tmp_path / "kept"


def found(grid, folder, changes=None, **keys):
    """Which runs need not be repeated, thanks to the stored results?"""
    return names(grid_status(*grid.load(changes, **keys), folder).kept)


def change_base(grid, folder, old, new):
    """Give the grid another base config."""
    assert old in CONFIG
    (folder / "conf.yaml").write_text(CONFIG.replace(old, new))
    grid.conf = folder / "conf.yaml"


@pytest.fixture
def elsewhere(complete, tmp_path):
    """The same grid in another project, where nothing was run."""
    return GridFolder(tmp_path / "elsewhere", complete.conf, **complete.train)


def test_what_is_stored_is_small_and_has_no_local_path(complete, stored, conf):
    files = sorted(file.relative_to(stored).as_posix() for file in stored.rglob("*.*"))
    usual = ["checksums.json", "config.yaml", "log.jsonl", "scores.json", "statistics.npz"]
    assert files == [
        *(f"chi/seed-1/{name}" for name in usual),
        *sorted(f"erm/seed-1/{name}" for name in [*usual, "baseline-train-token.json"]),
    ]
    for name in files:
        content = (stored / name).read_bytes()
        assert not any(str(path).encode() in content for path in (stored.parent, complete.folder, conf.parent))
        assert len(content) < 100_000


def test_a_stored_run_gives_the_same_result(complete, stored):
    here, there = (read_scored_run(run, "erm", "test") for run in (complete.run("erm"), Run(stored / "erm" / "seed-1")))
    for key in ("seed", "strategy", "tau", "pairs", "passes", "cost", "signature"):
        assert getattr(here, key) == getattr(there, key)


@pytest.mark.parametrize("name", ["config.yaml", "log.jsonl", "scores.json", "statistics.npz", "checksums.json"])
def test_results_of_another_run_are_noticed(stored, name):
    file = stored / "erm" / "seed-1" / name
    own, other = file.read_bytes(), (stored / "chi" / "seed-1" / name).read_bytes()
    file.write_bytes(other if other != own else other + b"\n")  # after few updates, both may translate the same
    for read in (lambda: read_scored_run(Run(file.parent), "erm", "test"), lambda: run_data(Run(file.parent), "erm")):
        with pytest.raises(ValueError, match="checksums.json") as caught:
            read()
        assert str(file.parent) in str(caught.value)


def test_stored_runs_need_not_be_repeated(complete, stored):
    assert found(complete, stored) == RUNS
    assert found(complete, stored.parent / "empty") == []


def test_nothing_is_run_when_all_is_stored(elsewhere, stored, tmp_path):
    """The data are not prepared either: there is no text."""
    change_base(elsewhere, elsewhere.folder, "threads: 1", "threads: 2")
    grid, jobs = elsewhere.load()
    assert run_grid(grid, jobs, keep_in=stored) == []
    assert not (elsewhere.folder / "store").exists()
    assert not list(elsewhere.folder.rglob("log.jsonl"))
    assert [result.row for result in grid_results(grid, jobs, stored)[None]] == ["erm", "chi"]


def test_baselines_are_copied_to_where_other_runs_look_for_them(elsewhere, stored):
    run_grid(*elsewhere.load(), keep_in=stored)
    name = "baseline-train-token.json"
    assert (elsewhere.run("erm").folder / name).read_bytes() == (stored / "erm" / "seed-1" / name).read_bytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [("train: train.", "train: /corpora/train."), ("threads: 1", "threads: 2"), ("log_every: 4", "log_every: 9")],
)
def test_where_the_text_is_and_how_the_machine_is_used_does_not_matter(elsewhere, stored, old, new):
    change_base(elsewhere, elsewhere.folder, old, new)
    assert found(elsewhere, stored) == RUNS


def test_nor_does_the_folder_of_the_runs(elsewhere, stored, tmp_path):
    """A baseline is identified by strategy and seed, not by its path."""
    assert found(elsewhere, stored, out=str(tmp_path / "far" / "away")) == RUNS


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"chi": {"balance": {"rho": 0.2}}}, "balance.rho"),
        ({"chi": {"train": {"updates": 7}}}, "train.updates"),
        (
            {"chi": {"balance": {"baseline": "flat"}}, "flat": {"balance": {"strategy": "uniform"}}},
            "balance.baseline",
        ),
    ],
)
def test_a_stored_run_with_other_settings_is_refused(elsewhere, stored, changes, key):
    with pytest.raises(ChangedSettingsError) as caught:
        run_grid(*elsewhere.load(changes), keep_in=stored)
    assert caught.value.folder == stored / "chi" / "seed-1"
    assert caught.value.keys == {key}


def test_so_is_one_of_other_directions(elsewhere, stored):
    change_base(elsewhere, elsewhere.folder, "[aa, bb, cc]", "[aa, bb]")
    with pytest.raises(ChangedSettingsError):
        found(elsewhere, stored)


def test_so_is_one_scored_with_another_beam(elsewhere, stored):
    with pytest.raises(ChangedSettingsError) as caught:
        found(elsewhere, stored, beam=2)
    assert caught.value.keys == {"beam"}


def test_settings_that_cannot_be_read_are_named(elsewhere, stored):
    file = stored / "erm" / "seed-1" / "config.yaml"
    file.write_text("a: [")
    with pytest.raises(RunError) as caught:
        found(elsewhere, stored)
    assert str(file) in str(caught.value)


def test_options_added_since_have_their_defaults(elsewhere, stored):
    file = stored / "chi" / "seed-1" / "config.yaml"
    older, removed = re.subn(r"^  (estimator|ema): .*\n", "", file.read_text(), flags=re.MULTILINE)
    assert removed == 2
    file.write_text(older)
    assert found(elsewhere, stored) == RUNS


def test_a_stored_schedule_can_be_read(complete, tmp_path):
    """Its keys are numbers."""
    points = {0: "tau:5", 2: "data"}
    changes = {"erm": {"balance": {"strategy": "schedule", "points": points}}}
    grid, jobs = complete.load(changes)
    jobs[0].config.save(complete.run("erm").config_file)
    run_grid(grid, jobs, keep_in=tmp_path / "kept")
    assert found(complete, tmp_path / "kept", changes) == RUNS
    assert Run(tmp_path / "kept" / "erm" / "seed-1").config().balance.options["points"] == points


def test_scores_of_another_split_are_added(complete, stored):
    """As `evenglot score --split valid` leaves them."""
    assert found(complete, stored, split="valid") == []
    for strategy in ("erm", "chi"):
        for name in ("scores{}.json", "statistics{}.npz"):
            folder = complete.run(strategy).folder
            shutil.copy(folder / name.format(""), folder / name.format("-valid"))
    assert run_grid(*complete.load(split="valid"), keep_in=stored) == []
    assert found(complete, stored, split="valid") == found(complete, stored) == RUNS


def test_scores_without_their_statistics_are_not_enough(complete, stored):
    (stored / "erm" / "seed-1" / "statistics.npz").unlink()
    assert found(complete, stored) == RUNS[1:]
    assert len(grid_results(*complete.load(), stored)[None]) == 2  # that of the run itself is there


def test_nor_is_a_run_without_the_losses_that_another_needs(elsewhere, stored):
    (stored / "erm" / "seed-1" / "baseline-train-token.json").unlink()
    assert found(elsewhere, stored) == RUNS[1:]


@pytest.mark.parametrize("keep", [True, False])
def test_checkpoints_of_complete_runs_are_removed_if_the_grid_says_so(complete, tmp_path, keep):
    """As after a grid that was killed between the last command and the removal."""
    folders = [complete.run(strategy).checkpoints for strategy in ("erm", "chi")]
    run_grid(*complete.load(checkpoints="keep"))
    assert all(folder.exists() for folder in folders)
    run_grid(*complete.load(checkpoints="remove"), keep_in=tmp_path / "kept" if keep else None)
    assert not any(folder.exists() for folder in folders)
    assert (tmp_path / "kept").exists() == keep


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
