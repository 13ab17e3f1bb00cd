"""Linear layers give the results and gradients of nn.Linear, whichever library computes their products."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenglot.model import products
from evenglot.model.products import BLOCK, Linear, add_to_sum, rows_times, sum_over_rows


def gradients(linear, x, weights):
    x = x.clone().requires_grad_()
    (linear(x) * weights).sum().backward()
    found = [x.grad, linear.weight.grad.clone(), linear.bias.grad.clone()]
    linear.zero_grad()
    return found


@given(rows=st.integers(1, 5 * BLOCK), inputs=st.integers(1, 40), outputs=st.integers(1, 40), seed=st.integers(0, 99))
def test_results_and_gradients_are_those_of_float64(rows, inputs, outputs, seed):
    torch.manual_seed(seed)
    linear = Linear(inputs, outputs)
    exact = torch.nn.Linear(inputs, outputs).double()
    exact.load_state_dict({name: value.double() for name, value in linear.state_dict().items()})
    x, weights = torch.randn(rows, inputs), torch.randn(rows, outputs)
    assert torch.allclose(linear(x).double(), exact(x.double()), rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(gradients(linear, x, weights), gradients(exact, x.double(), weights.double()), strict=True):
        assert torch.allclose(mine.double(), theirs, rtol=1e-4, atol=1e-4)


def test_any_number_of_leading_dimensions():
    linear = Linear(6, 5)
    x = torch.randn(3, 7, 6)
    assert torch.allclose(linear(x), torch.nn.functional.linear(x, linear.weight, linear.bias), atol=1e-6)
    assert linear(x[:0]).shape == (0, 7, 5)


def test_under_autocast_products_are_bfloat16_and_gradients_of_weights_float32(bfloat16):
    torch.manual_seed(1)
    linear, x = Linear(32, 16), torch.randn(2 * BLOCK + 5, 32)
    with torch.autocast("cpu", torch.bfloat16):
        product = linear(x)
    assert product.dtype == torch.bfloat16
    assert torch.allclose(product.float(), linear(x), atol=0.03)
    assert not torch.equal(product.float(), linear(x))
    product.float().square().sum().backward()
    low = linear.weight.grad.clone()
    assert low.dtype == torch.float32
    linear.zero_grad()
    linear(x).square().sum().backward()
    assert (low - linear.weight.grad).norm() < 0.02 * low.norm()


@given(rows=st.integers(0, 3 * BLOCK), seed=st.integers(0, 9))
def test_sums_over_rows(rows, seed):
    torch.manual_seed(seed)
    left, right, sums = torch.randn(rows, 4), torch.randn(rows, 3), torch.randn(4, 3)
    expected = (left.double().T @ right.double()).float()
    assert torch.allclose(sum_over_rows(left, right), expected, atol=1e-4)
    added = sums.clone()
    add_to_sum(added, left, right)
    assert torch.allclose(added, sums + expected, atol=1e-4)
    out = torch.empty(rows, 3)
    assert rows_times(left, sums, out) is out
    assert torch.allclose(out, left @ sums, atol=1e-4)


@given(st.integers(0, 10**6))
def test_kernels_are_compiled_for_few_numbers_of_rows(rows):
    whole = products.round_rows(rows)
    assert whole % BLOCK == 0
    assert 0 <= rows - whole < max(BLOCK, rows / 2 ** (products.SIGNIFICANT_BITS - 1))
    assert whole >> max(rows.bit_length() - products.SIGNIFICANT_BITS, 0) < 2**products.SIGNIFICANT_BITS


def test_at_most_sixteen_numbers_of_rows_per_doubling():
    assert len({products.round_rows(rows) for rows in range(4096, 8192)}) == 16


def test_the_setting_of_the_library_is_restored():
    if not products.has_faster_products(torch.float32):
        pytest.skip("PyTorch's own choice of library is used on this processor")
    before = torch.backends.mkldnn.matmul.fp32_precision
    with pytest.raises(RuntimeError):
        rows_times(torch.randn(BLOCK, 3), torch.randn(4, 2))
    assert torch.backends.mkldnn.matmul.fp32_precision == before


@pytest.mark.parametrize("faster", [False, True])
def test_float32_stays_exact_whether_or_not_the_other_library_is_used(monkeypatch, faster):
    """Where it would round inputs to bfloat16 (AMX), the setting is never touched."""
    monkeypatch.setattr(products, "has_faster_products", lambda precision: faster)
    asked = []
    real = products._onednn
    monkeypatch.setattr(products, "_onednn", lambda: asked.append(1) or real())
    left, right = torch.randn(BLOCK + 3, 50), torch.randn(50, 7)
    exact = left.double() @ right.double()
    assert rows_times(left, right).double().sub(exact).abs().max() < 1e-4
    sum_over_rows(left, left)
    assert bool(asked) == faster
