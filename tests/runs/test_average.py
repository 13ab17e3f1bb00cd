import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenglot.runs.average import average
from evenglot.runs.checkpoint import DamagedCheckpointError, save
from tests.runs.saved import assert_same, flip, save_at, weights


def test_the_average_is_the_mean_in_double_precision(tmp_path):
    values = [2.0**24, 1.0, 1.0, 1.0, 1.0]  # summed in float32, the ones would be lost
    models = [{"w": torch.tensor([value]), "n": torch.tensor(n)} for n, value in enumerate(values)]
    saved = [save_at(tmp_path, step, model=model) for step, model in enumerate(models)]
    mean = average(saved)
    assert mean["w"].dtype == torch.float32
    assert mean["w"].item() == torch.tensor((2.0**24 + 4) / 5, dtype=torch.float64).float().item()
    assert (mean["n"].dtype, mean["n"].item()) == (torch.int64, 2)


def test_the_average_of_two(tmp_path):
    saved = [save_at(tmp_path, step) for step in (1, 2)]
    first, second = weights(1), weights(2)
    assert_same(average(saved), {n: ((first[n].double() + second[n].double()) / 2).to(first[n].dtype) for n in first})


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5), st.integers(1, 7), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_average_of_the_same_is_the_same(values, copies, is_half):
    with tempfile.TemporaryDirectory() as root:
        tensor = torch.tensor(values, dtype=torch.bfloat16 if is_half else torch.float32)
        saved = save(Path(root), 1, model={"w": tensor}, optimizer=None, state={}, score=None)
        assert_same(average([saved] * copies), {"w": tensor})


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"w": torch.zeros(2)}, "^b: .*step-00000001"),
        ({"w": torch.zeros(2), "b": torch.zeros(1), "c": torch.zeros(1)}, "^c: .*step-00000002"),
        ({"w": torch.zeros(2, 1), "b": torch.zeros(1)}, r"^w: \[2, 1\] in .*-00000002, \[2\] in .*-00000001;"),
    ],
)
def test_different_models_are_not_averaged(tmp_path, other, message):
    one = save_at(tmp_path, 1, model={"w": torch.zeros(2), "b": torch.zeros(1)})
    with pytest.raises(ValueError, match=message):
        average([one, save_at(tmp_path, 2, model=other)])


def test_nothing_and_damaged_ones_are_not_averaged(tmp_path):
    with pytest.raises(ValueError, match="^checkpoints: "):
        average([])
    saved = save_at(tmp_path, 1)
    flip(0.9)(saved.folder / "model.safetensors")
    with pytest.raises(DamagedCheckpointError):
        average([saved])
