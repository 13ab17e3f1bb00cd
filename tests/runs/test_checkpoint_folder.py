import math
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenglot.runs.checkpoint import DamagedCheckpointError, open_checkpoint, save
from evenglot.runs.checkpoint_folder import best, checkpoints, find, latest, prune
from tests.runs.saved import FILES, names, save_at


def test_steps_are_in_the_order_of_numbers(tmp_path):
    for step in (123_456_789, 99_999_999, 0, 20):
        save_at(tmp_path, step)
    assert [c.step for c in checkpoints(tmp_path)] == [0, 20, 99_999_999, 123_456_789]


@pytest.mark.parametrize("root", ["empty", "missing"])
def test_a_run_without_checkpoints(tmp_path, root):
    (tmp_path / "empty").mkdir()
    assert checkpoints(tmp_path / root) == []
    assert latest(tmp_path / root, pytest.fail) is None
    assert best(tmp_path / root) is None
    prune(tmp_path / root, 1, 1)


def test_what_is_not_a_checkpoint_is_not_taken_for_one(tmp_path):
    save_at(tmp_path, 1)
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "step-00000002.unfinished")
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "step-1")
    (tmp_path / "notes").mkdir()
    (tmp_path / "step-00000009").write_text("a file")
    assert [c.step for c in checkpoints(tmp_path)] == [1]
    found, _ = latest(tmp_path, pytest.fail)
    assert found.step == best(tmp_path).step == 1


def test_if_all_are_damaged_it_does_not_begin_anew_silently(tmp_path):
    for step in (1, 2):
        (save_at(tmp_path, step).folder / FILES[step]).unlink()
    warnings = []
    with pytest.raises(DamagedCheckpointError, match=f"^{tmp_path}: "):
        latest(tmp_path, warnings.append)
    assert len(warnings) == 2


SCORES = st.none() | st.sampled_from([1.0, 2.0, 2.5, math.nan, math.inf, -math.inf]) | st.floats(-3, 3)


def save_scores(root, scores):
    for step, score in enumerate(scores):
        save(root, step, model={}, optimizer=None, state={}, score=score)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([3.0, 1.0, 2.0], 1),
        ([1.0, 1.0], 0),
        ([None, 5.0, None], 1),
        ([None, None], 1),
        ([math.nan, 2.0, -math.inf], 1),
        ([math.nan, math.inf], 1),
        ([2, 1], 1),
    ],
)
def test_the_best_has_the_lowest_score(tmp_path, scores, expected):
    save_scores(tmp_path, scores)
    assert best(tmp_path).step == expected


@pytest.mark.parametrize(("score", "expected"), [(0.5, "average"), (1.0, "step-00000000"), (None, "step-00000000")])
def test_an_average_can_be_the_best(tmp_path, score, expected):
    save_scores(tmp_path, [1.0, 2.0])
    save_at(tmp_path, 1, score=score, name="average")
    assert best(tmp_path).folder.name == expected


def test_an_average_alone_is_the_best(tmp_path):
    save_at(tmp_path, 1, name="average")
    assert best(tmp_path).folder.name == "average"


@pytest.mark.parametrize("damaged", ["step-00000000", "step-00000001", "average"])
@pytest.mark.parametrize("damage", [b"{", None])
def test_no_other_takes_the_place_of_a_damaged_best(tmp_path, damaged, damage):
    save_scores(tmp_path, [1.0, 2.0])
    save_at(tmp_path, 1, score=0.5, name="average")
    file = tmp_path / damaged / "state.json"
    file.unlink() if damage is None else file.write_bytes(damage)
    with pytest.raises(DamagedCheckpointError, match=damaged):
        find(tmp_path, "best")
    names = {"0": "step-00000000", "1": "step-00000001", "last": "step-00000001", "average": "average"}
    for which, name in names.items():
        if name == damaged:
            with pytest.raises(DamagedCheckpointError, match=damaged):
                find(tmp_path, which)
        else:
            assert find(tmp_path, which).folder.name == name
    shutil.rmtree(tmp_path / damaged)
    assert find(tmp_path, "best") == best(tmp_path)


def test_folders_of_others_are_no_checkpoints(tmp_path):
    save_scores(tmp_path, [1.0])
    (tmp_path / "notes").mkdir()
    assert find(tmp_path, "best").step == 0
    assert find(tmp_path, "notes") is None
    assert find(tmp_path / "absent", "best") is None


@given(st.lists(SCORES, max_size=8), st.integers(0, 9), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_prune_keeps_the_union_of_last_and_best(scores, keep_last, keep_best):
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        save_scores(root, scores)
        save_at(root, 3, name="average", score=-9.0)
        before = best(root)
        ranking = sorted((score, step) for step, score in enumerate(scores) if score is not None and abs(score) < 1e9)
        last = {step for step in range(len(scores)) if step >= len(scores) - keep_last}
        prune(root, keep_last, keep_best)
        assert {c.step for c in checkpoints(root)} == last | {step for _, step in ranking[:keep_best]}
        assert best(root) == before
        prune(root, keep_last, keep_best)  # again: nothing more to do
        assert {c.step for c in checkpoints(root)} == last | {step for _, step in ranking[:keep_best]}


def test_prune_removes_leftovers_and_nothing_that_it_cannot_judge(tmp_path):
    for step in (1, 2, 3):
        save_at(tmp_path, step)
    shutil.copytree(tmp_path / "step-00000003", tmp_path / "step-00000004.unfinished")
    (tmp_path / "step-00000002" / "state.json").write_text("{")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.txt").touch()
    prune(tmp_path, 1, 0)
    assert names(tmp_path) == ["notes", "notes.txt", "step-00000002", "step-00000003"]
    warnings = []
    assert latest(tmp_path, warnings.append)[0].step == 3
    (warning,) = warnings  # although it is older
    assert str(tmp_path / "step-00000002") in warning


@pytest.mark.parametrize(("keep_last", "keep_best"), [(-1, 1), (1, -1)])
def test_a_negative_number_to_keep_is_refused(tmp_path, keep_last, keep_best):
    save_at(tmp_path, 1)
    with pytest.raises(ValueError, match=f"^keep_last, keep_best: .*{keep_last} and {keep_best}"):
        prune(tmp_path, keep_last, keep_best)
    assert names(tmp_path) == ["step-00000001"]


PRUNE_ALL = """
import sys
from pathlib import Path
from evenglot.runs.checkpoint_folder import prune
from tests.killed import DELETIONS, kill_itself_after
kill_itself_after(int(sys.argv[2]), DELETIONS)
prune(Path(sys.argv[1]), 1, 0)
"""


@pytest.mark.parametrize("deletions", [0, 1, 4, 15])
def test_killed_while_pruning_no_half_checkpoint_remains(tmp_path, deletions):
    for step in range(5):
        save(tmp_path, step, model={"w": torch.zeros(9)}, optimizer=None, state={"step": step}, score=None)
        for extra in range(5):
            (tmp_path / f"step-{step:08d}" / f"extra{extra}").touch()
    command = [sys.executable, "-c", PRUNE_ALL, str(tmp_path), str(deletions)]
    assert subprocess.run(command, cwd=Path(__file__).parents[2]).returncode == -signal.SIGKILL
    for folder in tmp_path.glob("step-????????"):
        open_checkpoint(folder).read()
    assert latest(tmp_path, pytest.fail)[0].step == 4
    prune(tmp_path, 1, 0)
    assert names(tmp_path) == ["step-00000004"]
