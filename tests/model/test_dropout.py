"""Masks drop the right share in expectation, independently of each other, and follow from the seed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenglot.model.dropout import Dropout, dropout, factors


@given(p=st.floats(0.001, 0.999), seed=st.integers(0, 2**32))
def test_elements_are_dropped_or_scaled_up(p, seed):
    torch.manual_seed(seed)
    found = factors(torch.Size([37]), p)
    kept = found[found != 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - p)))


@pytest.mark.parametrize("p", [0.1, 0.3, 1 / 256, 0.002])  # 25.6, 76.8, 1 and .5 of 256
def test_the_share_is_exact_in_expectation(p):
    """A threshold of 26 / 256 instead of .1 would be 18 standard errors away."""
    torch.manual_seed(3)
    masks, size = 4000, 1024
    shares = torch.stack([factors(torch.Size([size]), p).eq(0).double().mean() for _ in range(masks)])
    error = float((shares.mean() - p) / (shares.std() / masks**0.5))
    assert abs(error) < 4
    rounded = max(abs(round(256 * p) / 256 - p), abs(int(256 * p) / 256 - p))
    assert float(shares.std()) / masks**0.5 < max(rounded, 1e-3) / 4  # the test can tell


def test_neighbours_are_independent():
    torch.manual_seed(4)
    kept = torch.stack([factors(torch.Size([4096]), 0.3).gt(0).double() for _ in range(200)])
    for distance in (1, 2, 8, 64):
        correlation = torch.corrcoef(torch.stack([kept[:, :-distance].flatten(), kept[:, distance:].flatten()]))[0, 1]
        assert abs(float(correlation)) < 0.006  # five standard errors


def test_masks_follow_from_the_seed_and_differ_from_each_other():
    torch.manual_seed(5)
    first, second = factors(torch.Size([99]), 0.5), factors(torch.Size([99]), 0.5)
    torch.manual_seed(5)
    assert torch.equal(factors(torch.Size([99]), 0.5), first)
    assert not torch.equal(first, second)


def test_gradients_pass_where_elements_are_kept():
    torch.manual_seed(6)
    x = torch.randn(50, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert torch.equal(x.grad * x.detach(), y.detach())


def test_no_dropout_in_evaluation_or_without_probability():
    x = torch.randn(9)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(dropout(x, 0.0), x)
