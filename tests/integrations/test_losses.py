"""Cross-entropy of every label, beside PyTorch's."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from evenglot.integrations.losses import IGNORED, label_losses


def example(rows, length, classes, seed, dtype=torch.float64):
    chance = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(rows, length, classes, generator=chance, dtype=torch.float64)).to(dtype)
    labels = torch.randint(0, classes, (rows, length), generator=chance)
    labels[torch.rand(rows, length, generator=chance) < 0.3] = IGNORED
    weights = torch.rand(rows, length, generator=chance)
    return logits.requires_grad_(), labels, weights


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(2, 9),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.integers(1, 50),
    st.integers(0, 99),
)
def test_losses_and_gradients_are_those_of_pytorch(rows, length, classes, smoothing, chunk, seed):
    logits, labels, weights = example(rows, length, classes, seed)
    ours = label_losses(logits, labels, smoothing, chunk)
    theirs = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(ours.flatten(), theirs, rtol=1e-12, atol=1e-12)
    assert (ours[labels == IGNORED] == 0).all()
    gradients = [torch.autograd.grad((each * weights.flatten()).sum(), logits)[0] for each in (ours.flatten(), theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_logits_of_labels_that_do_not_count_may_be_anything():
    logits = torch.tensor([[[0.0, 1.0]], [[torch.nan, torch.inf]]], requires_grad=True)
    losses = label_losses(logits, torch.tensor([[1], [IGNORED]]))
    losses.sum().backward()
    assert losses.isfinite().all()
    assert logits.grad.isfinite().all()


def test_low_precision_logits_have_losses_in_float32():
    logits, labels, _ = example(3, 4, 7, seed=1, dtype=torch.bfloat16)
    losses = label_losses(logits, labels)
    losses.sum().backward()
    expected = cross_entropy(logits.detach().float().flatten(0, 1), labels.flatten(), reduction="none")
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses.flatten(), expected)
    assert logits.grad.dtype == torch.bfloat16


class Memory(TorchDispatchMode):
    """The tensors that are made, views of others and work in place apart."""

    def __init__(self):
        super().__init__()
        self.made = {}  # kept alive, so that no address is used twice

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.made[result.untyped_storage().data_ptr()] = result
        return result

    def larger(self, size, but):
        return [each for address, each in self.made.items() if each.numel() > size and address != but.data_ptr()]


def test_no_copy_of_the_logits_is_made_but_their_gradient():
    logits, labels, _ = example(8, 10, 500, seed=2, dtype=torch.bfloat16)
    with Memory() as forward:
        losses = label_losses(logits, labels, chunk=5000)
    assert not forward.larger(5000, but=logits)
    assert forward.larger(4000, but=logits)
    with Memory() as backward:
        torch.autograd.grad(losses.sum(), logits)
    assert len(backward.larger(5000, but=logits)) == 1
