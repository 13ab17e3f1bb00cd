"""Which runs of a grid are complete and which are missing, judged by real run folders."""

import pytest

from evenglot.grid.status import grid_results, grid_status
from evenglot.grid.work import run_grid
from evenglot.runs.run import ChangedSettingsError
from tests.grid.folder import CHI, change_end, names, times


def missing(grid, changes=None, **keys):
    return names(grid_status(*grid.load(changes, **keys)).missing)


def refused(grid, changes):
    """The run and the settings that are named when a changed grid is refused; nothing may have been touched."""
    before = times(grid.folder / "runs")
    with pytest.raises(ChangedSettingsError) as caught:
        run_grid(*grid.load(changes))
    assert times(grid.folder / "runs") == before
    return caught.value.folder, caught.value.keys


def test_of_a_new_grid_every_run_is_missing(grid):
    assert missing(grid) == ["erm/seed-1", "chi/seed-1"]


def test_of_a_complete_grid_none_is(complete):
    status = grid_status(*complete.load())
    assert names(status.complete) == ["erm/seed-1", "chi/seed-1"]
    assert status.missing == status.kept == []


@pytest.mark.parametrize("name", ["config.yaml", "log.jsonl", "scores.json", "statistics.npz"])
def test_a_run_without_one_of_its_files_is_missing(complete, name):
    (complete.run("erm").folder / name).unlink()
    assert missing(complete) == ["erm/seed-1"]


def test_so_is_one_without_the_losses_that_another_needs(complete):
    (complete.run("erm").folder / "baseline-train-token.json").unlink()
    assert missing(complete) == ["erm/seed-1"]


def test_a_new_strategy_may_need_more_of_a_complete_run(complete):
    new = {"valid": {"balance": {**CHI, "signal": "valid"}}}
    assert missing(complete, new) == ["erm/seed-1", "valid/seed-1"]
    (complete.run("erm").folder / "baseline-valid-token.json").write_text("{}")
    assert missing(complete, new) == ["valid/seed-1"]


@pytest.mark.parametrize("keys", [{"split": "valid"}, {"beam": 2}])
def test_scores_of_another_split_or_beam_are_not_enough(complete, keys):
    assert missing(complete, **keys) == ["erm/seed-1", "chi/seed-1"]


def test_a_run_that_was_stopped_is_missing(complete):
    change_end(complete.run("chi"), reason="stopped")
    assert missing(complete) == ["chi/seed-1"]


def test_so_is_one_that_was_killed_after_it_resumed(complete):
    change_end(complete.run("chi"), event="resume", changes=[])
    assert missing(complete) == ["chi/seed-1"]


def test_so_is_one_that_is_to_be_longer(complete):
    assert missing(complete, {"chi": {"train": {"updates": 9}}}) == ["chi/seed-1"]


def test_a_larger_patience_continues_a_run_that_ended_for_lack_of_progress(complete):
    patient = {"chi": {"train": {"patience": 3}}}
    complete.load(patient)[1][1].config.save(complete.run("chi").config_file)
    change_end(complete.run("chi"), reason="patience")
    assert missing(complete, patient) == []
    assert missing(complete, {"chi": {"train": {"patience": 4}}}) == ["chi/seed-1"]


@pytest.mark.parametrize("change", [{"learning_rate": 1}, {"clip": 2}, {"updates": 3}, {"average": 2}])
def test_a_complete_run_with_other_settings_is_refused(complete, change):
    """Also with settings that may change while a run is in progress: this is not the run that the grid defines."""
    folder, keys = refused(complete, {"chi": {"train": change}})
    assert folder == complete.run("chi").folder
    assert keys == {f"train.{key}" for key in change}


def test_so_is_one_of_another_strategy(complete):
    folder, keys = refused(complete, {"erm": {"balance": {"strategy": "uniform"}}})
    assert folder == complete.run("erm").folder
    assert "balance.strategy" in keys


def test_a_run_is_not_made_longer_when_others_were_trained_against_its_losses(complete):
    folder, keys = refused(complete, {"erm": {"train": {"updates": 9}}})
    assert folder == complete.run("erm").folder
    assert keys == {"train.updates"}


def test_results_are_those_of_the_scored_runs(complete):
    (results,) = grid_results(*complete.load({"flat": {"balance": {"strategy": "uniform"}}})).values()
    assert [(result.row, result.seed, result.strategy) for result in results] == [
        ("erm", 1, "proportional"),
        ("chi", 1, "chi-ibr"),
    ]
    assert results[1].cost.reference_updates == 6
