import dataclasses

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evenglot.model.loss import batch_loss, direction_sums, smoothed_cross_entropy
from tests.model.cases import all_logits, random_batch, small_model


@pytest.fixture
def portable_low_precision(monkeypatch):
    """oneDNN crashes with bfloat16 on virtual machines that report AMX support but do not have it."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


def problem(pieces=11, dim=6, vocabulary=13, dtype=torch.float64, seed=1):
    torch.manual_seed(seed)
    hidden = torch.randn(pieces, dim, dtype=dtype, requires_grad=True)
    embedding = torch.randn(vocabulary, dim, dtype=dtype, requires_grad=True)
    return hidden, embedding, torch.randint(vocabulary, (pieces,)), torch.rand(pieces, dtype=dtype) * 3


def written_out(hidden, embedding, target, weights, smoothing):
    """The formula, token by token."""
    losses = []
    for state, gold in zip(hidden, target, strict=True):
        logits = embedding @ state
        lp = logits - logits.exp().sum().log()
        losses.append((1 - smoothing) * -lp[gold] + smoothing / len(lp) * -lp.sum())
    losses = torch.stack(losses)
    return (weights * losses).sum(), losses.detach()


def gradients(objective, *tensors):
    return torch.autograd.grad(objective, tensors)


@given(st.integers(1, 20), st.integers(3, 20), st.floats(0, 0.9), st.integers(1, 25), st.integers(0, 99))
def test_equals_the_formula_whatever_the_chunk(pieces, vocabulary, smoothing, chunk, seed):
    hidden, embedding, target, weights = problem(pieces, vocabulary=vocabulary, seed=seed)
    ours = smoothed_cross_entropy(hidden, embedding, target, weights, smoothing, chunk)
    expected = written_out(hidden, embedding, target, weights, smoothing)
    torch.testing.assert_close(ours, expected)
    assert not ours[1].requires_grad
    torch.testing.assert_close(gradients(ours[0], hidden, embedding), gradients(expected[0], hidden, embedding))


def test_gradcheck():
    hidden, embedding, target, weights = problem(5)
    assert torch.autograd.gradcheck(
        lambda h, e: 0.7 * smoothed_cross_entropy(h, e, target, weights, 0.1, chunk=2)[0], (hidden, embedding)
    )


def test_without_smoothing_it_is_cross_entropy():
    hidden, embedding, target, weights = problem(dtype=torch.float32)
    objective, losses = smoothed_cross_entropy(hidden, embedding, target, weights, 0.0)
    expected = F.cross_entropy(hidden @ embedding.T, target, reduction="none")
    torch.testing.assert_close(losses, expected.detach())
    expected_gradients = gradients((expected * weights).sum(), hidden, embedding)
    torch.testing.assert_close(gradients(objective, hidden, embedding), expected_gradients)


def test_backward_can_be_called_again_and_adds_up():
    hidden, embedding, target, weights = problem()
    objective, _ = smoothed_cross_entropy(hidden, embedding, target, weights, 0.1)
    first = gradients_kept(objective, hidden, embedding)
    torch.testing.assert_close(gradients_kept(2 * objective, hidden, embedding), tuple(2 * grad for grad in first))


def gradients_kept(objective, *tensors):
    return torch.autograd.grad(objective, tensors, retain_graph=True)


def test_weight_zero_gives_exactly_no_gradient():
    hidden, embedding, target, weights = problem()
    weights[3:7] = 0
    some, _ = smoothed_cross_entropy(hidden, embedding, target, weights, 0.1)
    of_hidden, of_embedding = gradients(some, hidden, embedding)
    assert (of_hidden[3:7] == 0).all()
    assert (of_hidden[:3] != 0).all()
    rest = [0, 1, 2, *range(7, 11)]
    alone, _ = smoothed_cross_entropy(hidden[rest], embedding, target[rest], weights[rest], 0.1)
    torch.testing.assert_close(of_embedding, gradients(alone, embedding)[0])
    none, losses = smoothed_cross_entropy(hidden, embedding, target, torch.zeros(11), 0.1)
    assert none == 0
    assert (losses > 0).all()
    assert all((grad == 0).all() for grad in gradients(none, hidden, embedding))


@pytest.mark.usefixtures("portable_low_precision")
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weight", [1.0, 1e-7])
def test_autocast_is_near_float32_even_if_weights_are_tiny(precision, weight):
    """1e-7 underflows in float16, but the gradient must not."""
    hidden, embedding, target, weights = problem(40, 32, 100, torch.float32)
    embedding.data *= 32**-0.5
    exact = smoothed_cross_entropy(hidden, embedding, target, weight * weights, 0.1, 16)
    with torch.autocast("cpu", precision):
        near = smoothed_cross_entropy(hidden, embedding, target, weight * weights, 0.1, 16)
    assert near[0].dtype == near[1].dtype == torch.float32
    torch.testing.assert_close(near, exact, rtol=0.02, atol=0)
    for grad, expected in zip(
        gradients(near[0], hidden, embedding), gradients(exact[0], hidden, embedding), strict=True
    ):
        assert grad.dtype == torch.float32
        assert (grad - expected).norm() < 0.02 * expected.norm()


def test_hidden_states_of_low_precision_get_gradients_of_it():
    hidden, embedding, target, weights = problem(dtype=torch.float32)
    low = hidden.detach().bfloat16().requires_grad_()
    objective, losses = smoothed_cross_entropy(low, embedding, target, weights, 0.1)
    assert losses.dtype == torch.float32
    assert [grad.dtype for grad in gradients(objective, low, embedding)] == [torch.bfloat16, torch.float32]


def test_no_gradient_is_made_where_none_is_wanted():
    hidden, embedding, target, weights = problem(pieces=400, vocabulary=500)
    with LargestTensor() as with_gradient:
        smoothed_cross_entropy(hidden, embedding, target, weights, 0.1, chunk=1)
    with torch.no_grad(), LargestTensor() as without:
        objective, _ = smoothed_cross_entropy(hidden, embedding, target, weights, 0.1, chunk=1)
    assert not objective.requires_grad
    assert with_gradient.elements == 500 * 6
    assert without.elements == 500


class LargestTensor(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation returns."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        known = {leaf.untyped_storage().data_ptr() for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)}
        for leaf in tree_leaves(result):
            if torch.is_tensor(leaf) and leaf.untyped_storage().data_ptr() not in known:
                self.elements = max(self.elements, leaf.numel())
        return result


def test_there_are_never_more_logits_than_those_of_a_chunk():
    hidden, embedding, target, weights = problem(pieces=256, dim=4, vocabulary=1000, dtype=torch.float32)
    with LargestTensor() as ours:
        smoothed_cross_entropy(hidden, embedding, target, weights, 0.1, chunk=8)[0].backward()
    with LargestTensor() as naive:
        F.cross_entropy(hidden @ embedding.T, target, label_smoothing=0.1).backward()
    assert naive.elements == 256 * 1000
    assert ours.elements == 8 * 1000


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_impossible_smoothing_is_refused(smoothing):
    with pytest.raises(ValueError, match="^smoothing: "):
        smoothed_cross_entropy(*problem(), smoothing)


def test_loss_of_a_batch_by_sentence_with_weights():
    model = small_model()
    batch = random_batch(model.shape, [7, 3, 12, 1], [9, 10, 2, 1])
    weights = torch.tensor([1.0, 0.0, 2.5, 0.25])
    loss = batch_loss(model, batch, weights, 0.1)
    gold = torch.cat([row[:length] for row, length in zip(batch.target, batch.target_lengths, strict=True)])
    pieces = F.cross_entropy(all_logits(model, batch), gold, label_smoothing=0.1, reduction="none")
    sums = torch.stack([part.sum() for part in pieces.split([9, 10, 2, 1])])
    torch.testing.assert_close(loss.sums, sums.detach())
    torch.testing.assert_close(loss.objective, (weights * sums).sum())
    assert not loss.sums.requires_grad
    loss.objective.backward()
    ours = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    (weights * sums).sum().backward()
    for grad, weight in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(grad, weight.grad, atol=1e-4, rtol=1e-4)


def test_a_stand_in_has_a_gradient_of_zeros():
    """A rank without data must still take part in the gradient all-reduce."""
    model = small_model().train()
    batch = random_batch(model.shape, [5], [4])
    batch_loss(model, batch, torch.zeros(1), 0.1).objective.backward()
    assert all((weight.grad == 0).all() for weight in model.parameters())


@pytest.mark.usefixtures("portable_low_precision")
def test_batch_loss_under_autocast():
    model = small_model(spread=1.0)
    batch = random_batch(model.shape, [7, 3, 12], [9, 10, 2])
    exact = batch_loss(model, batch, torch.ones(3), 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        near = batch_loss(model, batch, torch.ones(3), 0.1)
    near.objective.backward()
    assert near.sums.dtype == torch.float32
    torch.testing.assert_close(near.sums, exact.sums, rtol=0.05, atol=0)
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


def test_a_sentence_has_the_same_loss_in_any_batch():
    model = small_model()
    batch = random_batch(model.shape, [7, 3, 12, 1], [9, 10, 2, 1])
    order = torch.tensor([2, 0])
    fields = ("source", "target", "source_lengths", "target_lengths", "direction")
    part = dataclasses.replace(batch, **{name: getattr(batch, name)[order] for name in fields})
    whole = batch_loss(model, batch, torch.ones(4), 0.1).sums
    torch.testing.assert_close(batch_loss(model, part, torch.ones(2), 0.1).sums, whole[order])


def test_direction_sums():
    direction = torch.tensor([2, 0, 2, 4])
    sums = direction_sums(torch.tensor([1.0, 10.0, 0.5, 7.0]), direction, 6)
    assert sums.tolist() == [10.0, 0.0, 1.5, 0.0, 7.0, 0.0]
    assert sums.dtype == torch.float64
    assert direction_sums(torch.tensor([3, 4, 5, 6]), direction, 5).tolist() == [4.0, 0.0, 8.0, 0.0, 6.0]
