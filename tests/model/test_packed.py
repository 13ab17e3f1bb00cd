import copy

import pytest
import torch

from evenglot.model import packed as packing
from evenglot.model.packed import PackedLinear, packed
from evenglot.model.search import beam_search, greedy
from tests.model.cases import all_logits, random_batch, small_model

LENGTHS = [1, 2, 3, 5, 8, 13, 21, 4]


@pytest.fixture
def model():
    return small_model(seed=4)


@pytest.fixture
def batch(model):
    return random_batch(model.shape, LENGTHS, LENGTHS)


@pytest.mark.skipif(not torch.backends.cpu.get_cpu_capability().startswith("AVX"), reason="needs an x86 CPU")
@pytest.mark.parametrize("small", [0, 2**40])
def test_a_packed_model_gives_the_same_results(model, batch, small, monkeypatch):
    monkeypatch.setattr(packing, "SMALL", small)
    fast = packed(model)
    assert any(isinstance(part, PackedLinear) for part in fast.modules())
    torch.testing.assert_close(all_logits(fast, batch), all_logits(model, batch), atol=1e-5, rtol=1e-5)
    inputs = batch.source, batch.source_lengths
    assert greedy(fast, *inputs, 20) == greedy(model, *inputs, 20)
    for mine, theirs in zip(
        beam_search(fast, *inputs, n_best=5, max_length=20),
        beam_search(model, *inputs, n_best=5, max_length=20),
        strict=True,
    ):
        assert [h.pieces for h in mine] == [h.pieces for h in theirs]
        assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], abs=1e-5)


def test_packing_leaves_the_model_as_it_is_and_copies_no_parameters(model):
    before = copy.deepcopy(model.state_dict())
    fast = packed(model)
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not any(isinstance(part, PackedLinear) for part in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert {p.data_ptr() for p in fast.parameters()} == {p.data_ptr() for p in model.parameters()}


def test_only_float32_is_packed(model):
    double = model.double()
    assert packed(double) is double
