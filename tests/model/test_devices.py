"""Devices: which can be used, and that those without float64 are not asked for it."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evenglot.model import devices, loss, search
from evenglot.model.devices import sum_type, usable_device
from evenglot.model.loss import batch_loss, direction_sums
from evenglot.model.products import has_faster_products
from evenglot.model.search import beam_search, greedy
from tests.model.cases import random_batch, small_model


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused_in_one_line(device, monkeypatch):
    monkeypatch.setitem(devices.AVAILABLE, device, lambda: False)
    with pytest.raises(ValueError, match=r"^train\.device: no .*'cpu'.*'auto'") as refused:
        usable_device(device, "train.device")
    assert "\n" not in str(refused.value)
    monkeypatch.setitem(devices.AVAILABLE, device, lambda: True)
    assert usable_device(device).type == device


def test_auto_never_fails(monkeypatch):
    for name in devices.AVAILABLE:
        monkeypatch.setitem(devices.AVAILABLE, name, lambda: False)
    assert usable_device("auto") == usable_device("cpu") == torch.device("cpu")


class NoFloat64(TorchDispatchMode):
    """A device without float64, as Apple's GPUs are: an operation that yields it fails."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        assert not (isinstance(made, torch.Tensor) and made.dtype == torch.float64), func
        return made


def test_what_runs_on_a_device_needs_no_float64_where_there_is_none(monkeypatch):
    assert sum_type(torch.device("mps")) == torch.float32
    assert sum_type(torch.device("cpu")) == torch.float64
    for module in (loss, search):
        monkeypatch.setattr(module, "sum_type", lambda device: sum_type(torch.device("mps")))
    has_faster_products(torch.float32)  # found out once per process, with float64
    model = small_model()
    batch = random_batch(model.shape, [4, 7, 3], [5, 2, 6])
    expected = beam_search(model, batch.source, batch.source_lengths, beam=3, max_length=12)
    with NoFloat64():
        made = batch_loss(model.train(), batch, torch.ones(3), 0.1)
        made.objective.backward()
        sums = direction_sums(made.sums, batch.direction, 3)
        model.eval()
        found = beam_search(model, batch.source, batch.source_lengths, beam=3, max_length=12)
        greedy(model, batch.source, batch.source_lengths, 12)
    assert sums.tolist() == pytest.approx(made.sums.tolist())
    assert [[each.pieces for each in best] for best in found] == [[each.pieces for each in best] for best in expected]
