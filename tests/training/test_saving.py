"""When a checkpoint is due and which ones are dropped: decided without training anything."""

from unittest.mock import Mock

import pytest
import torch

from evenglot.config import TrainSettings
from evenglot.runs import checkpoint_folder as module
from evenglot.runs.checkpoint_folder import checkpoints
from evenglot.runs.run import Run
from evenglot.training.parallel import Processes
from evenglot.training.position import Position
from evenglot.training.saving import Checkpointer, Moment, SavePolicy, Snapshot

NEVER = -1  # validated


def policy(every=None, keep_last=3):
    return SavePolicy(every, keep_last)


def resumed(step, regular, damaged=(), validated=NEVER, keep_last=3):
    made = policy(keep_last=keep_last)
    made.resume(step, validated, list(regular), list(damaged))
    return made


# ----------------------------------------------------------------------------------------------- what is due?


@pytest.mark.parametrize(("every", "steps"), [(None, []), (1, [1, 2, 3, 4, 5, 6]), (3, [3, 6]), (10, [])])
def test_between_updates_every_so_many(every, steps):
    assert [step for step in range(1, 7) if policy(every).due(Moment.UPDATE, step, NEVER)] == steps


def test_between_updates_after_a_validation():
    assert policy().due(Moment.UPDATE, 4, validated=4)
    assert not policy().due(Moment.UPDATE, 5, validated=4)


def test_an_interval_always_ends_with_a_checkpoint():
    made = policy()
    made.add(Moment.UPDATE, 4, validated=4)
    assert made.due(Moment.INTERVAL, 4, validated=4)  # the mixture has changed since


@pytest.mark.parametrize("moment", [Moment.UPDATE, Moment.END, Moment.STOP])
def test_the_same_model_is_saved_once_unless_it_was_validated_since(moment):
    made = policy(every=4)
    assert made.due(moment, 4, NEVER)
    made.add(Moment.INTERVAL, 4, NEVER)
    assert not made.due(moment, 4, NEVER)
    assert made.due(moment, 4, validated=4)


def test_a_checkpoint_of_a_stop_stands_for_none_of_the_regular_ones():
    made = policy(every=4)
    made.add(Moment.STOP, 4, NEVER)
    assert not made.due(Moment.STOP, 4, NEVER)
    assert made.due(Moment.UPDATE, 4, NEVER)
    assert made.due(Moment.END, 4, NEVER)


@pytest.mark.parametrize(("regular", "due"), [([2, 4], False), ([2], True)])
def test_a_resumed_run_writes_what_the_stop_left_out(regular, due):
    made = resumed(4, regular)
    made.every = 2
    assert made.due(Moment.UPDATE, 4, NEVER) is due
    assert not made.due(Moment.STOP, 4, NEVER)


# ------------------------------------------------------------------------------------------------ what is kept?


def test_the_last_regular_checkpoints_are_remembered_and_stops_are_not():
    made = policy(keep_last=2)
    for moment, step in [(Moment.UPDATE, 2), (Moment.STOP, 3), (Moment.INTERVAL, 4), (Moment.STOP, 5)]:
        made.add(moment, step, NEVER)
    assert made.regular == [2, 4]
    made.add(Moment.END, 6, NEVER)
    assert made.regular == [4, 6]


def test_a_step_that_is_saved_again_counts_once():
    made = policy(keep_last=2)
    made.add(Moment.UPDATE, 2, NEVER)
    made.add(Moment.INTERVAL, 4, NEVER)
    made.add(Moment.END, 4, validated=4)
    assert made.regular == [2, 4]


def test_the_next_checkpoint_replaces_the_one_of_a_stop():
    made = resumed(3, regular=[2])
    assert made.add(Moment.INTERVAL, 4, NEVER) == [3]
    assert made.add(Moment.INTERVAL, 6, NEVER) == []


def test_a_regular_checkpoint_that_was_resumed_from_is_not_replaced():
    assert resumed(2, regular=[2]).add(Moment.INTERVAL, 4, NEVER) == []


def test_a_checkpoint_of_a_stop_that_is_saved_again_as_a_regular_one_stays():
    made = resumed(3, regular=[2])
    assert made.add(Moment.UPDATE, 3, NEVER) == []
    assert made.regular == [2, 3]
    assert made.add(Moment.INTERVAL, 4, NEVER) == []


def test_damaged_checkpoints_newer_than_the_one_resumed_from_are_replaced():
    made = resumed(4, regular=[2, 4], damaged=[6, 8])
    assert made.add(Moment.INTERVAL, 6, NEVER) == [8]


# ------------------------------------------------------------------------------------------------------ on disk


def checkpointer(folder, announced=None, **settings):
    announced = [] if announced is None else announced
    return Checkpointer(Run(folder), TrainSettings.model_validate(settings), Processes(), announced.append, pytest.fail)


def save(made, moment, step):
    """Write a checkpoint of a position, if one is due, whose weight is the step."""
    at = Position.start(["aa-en"])
    at.step = step
    weights = {"weight": torch.tensor([float(step)])}
    made.save(moment, at, lambda: Snapshot(weights, {}, {"store": "s"}))


def kept(folder):
    return [each.step for each in checkpoints(folder / "checkpoints")]


def test_a_stop_leaves_the_same_checkpoints_as_a_run_without_one(tmp_path):
    keys = {"save_every": 2, "keep_last": 2}
    whole = checkpointer(tmp_path / "whole", **keys)
    for step in range(1, 9):
        save(whole, Moment.UPDATE, step)
    for first in range(1, 8):
        folder = tmp_path / str(first)
        before = checkpointer(folder, **keys)
        for step in range(1, first + 1):
            save(before, Moment.UPDATE, step)
        save(before, Moment.STOP, first)
        assert kept(folder)[-1] == first
        after = checkpointer(folder, **keys)
        found, content = after.latest()
        assert after.resume(content).step == found.step == first
        for step in range(first, 9):
            save(after, Moment.UPDATE, step)
        assert kept(folder) == kept(tmp_path / "whole") == [6, 8], first
        assert [each.step for each in after.last_regular(5)] == [6, 8]


@pytest.mark.parametrize("stop", [None, *range(1, 8)])
def test_what_a_killed_process_did_not_delete_is_deleted_on_resuming(tmp_path, monkeypatch, stop):
    keys = {"save_every": 2, "keep_last": 2}
    made = checkpointer(tmp_path, **keys)
    for step in range(1, 8):
        save(made, Moment.UPDATE, step)
        if step == stop:
            save(made, Moment.STOP, step)
            made = checkpointer(tmp_path, **keys)
            made.resume(made.latest()[1])
    with monkeypatch.context() as killed:
        killed.setattr(module, "prune", Mock())
        save(made, Moment.UPDATE, 8)
    assert set(kept(tmp_path)) > {6, 8}
    made = checkpointer(tmp_path, **keys)
    made.resume(made.latest()[1])
    assert kept(tmp_path) == [6, 8]


def test_nothing_is_deleted_on_resuming_before_a_damaged_checkpoint(tmp_path):
    made = checkpointer(tmp_path, save_every=2, keep_last=3)
    for step in (2, 4):
        save(made, Moment.UPDATE, step)
    _, content = made.latest()
    save(made, Moment.UPDATE, 6)
    checkpointer(tmp_path, save_every=2, keep_last=2).resume(content)  # 6 would be one of these two
    assert kept(tmp_path) == [2, 4, 6]


def test_a_checkpoint_has_the_position_with_the_regular_steps_and_the_state(tmp_path):
    announced = []
    made = checkpointer(tmp_path, announced, save_every=2)
    save(made, Moment.UPDATE, 2)
    save(made, Moment.STOP, 3)
    assert [each.step for each in announced] == [2, 3]
    _, content = checkpointer(tmp_path).latest()
    assert content.state["store"] == "s"
    assert content.state["position"]["step"] == 3
    assert content.state["position"]["regular"] == [2]
    assert content.model["weight"].tolist() == [3.0]


def test_where_nothing_is_due_nothing_is_written(tmp_path):
    announced = []
    made = checkpointer(tmp_path, announced, save_every=5)
    save(made, Moment.UPDATE, 3)
    assert announced == []
    assert made.latest() is None
