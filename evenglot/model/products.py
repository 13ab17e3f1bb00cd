"""Matrix products on the CPU: the fastest library for each, and few different shapes.

PyTorch computes float32 products with MKL, which uses only half of the width of an AMD processor with AVX-512; oneDNN
uses all of it, in the same precision. bfloat16 products are always computed by oneDNN. It compiles a kernel for every
shape, which takes as long as the product itself, but the rows of a batch (sentences * subwords) are different each
time. So most rows go to oneDNN, in one of a few round numbers, and the rest to MKL in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from evenglot.processor import vendor


class Linear(nn.Linear):
    """nn.Linear, with the products of this module in training and validation on a CPU, if they are faster.

    Under autocast, products and output have its precision; the gradients of the weights are float32.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (..., inputs) -> (..., outputs)"""
        return self.product(x, self.bias)

    def product(self, x: Tensor, bias: Tensor) -> Tensor:
        """As `forward`, with this bias."""
        precision = product_precision(x)
        if x.is_cpu and not torch.is_inference_mode_enabled() and has_faster_products(precision):
            product: Tensor = _Linear.apply(x, self.weight, bias, precision)  # type: ignore[no-untyped-call]
            return product
        return nn.functional.linear(x, self.weight, bias)


def product_precision(x: Tensor) -> torch.dtype:
    """The precision of products with x: its own, or that of autocast."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


class _Linear(torch.autograd.Function):
    """x @ weight.T + bias, with gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, precision: torch.dtype) -> Tensor:
        rows, matrix = x.flatten(0, -2).to(precision), weight.to(precision)
        ctx.save_for_backward(rows, matrix)
        ctx.dtypes = x.dtype, weight.dtype
        with torch.autocast("cpu", enabled=False):  # or it would change the precision of the remaining rows
            product = rows_times(rows, matrix.T).add_(bias.to(precision))
        return product.view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix = ctx.saved_tensors
        of_input, of_weights = ctx.dtypes
        of_rows = grad.flatten(0, -2).to(rows.dtype)
        of_x = rows_times(of_rows, matrix).to(of_input).view(*grad.shape[:-1], rows.size(1))
        return of_x, sum_over_rows(of_rows, rows).to(of_weights), of_rows.sum(0, dtype=of_weights), None


def rows_times(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """left (n, k) @ right (k, m), written to `out` if given."""
    product = left.new_empty(len(left), right.size(1)) if out is None else out
    middle = _round(left)
    if middle:
        with _library():
            torch.mm(left[:middle], right, out=product[:middle])
    if middle < len(left):
        product[middle:] = left[middle:].float() @ right.float()
    return product


def sum_over_rows(left: Tensor, right: Tensor) -> Tensor:
    """left (n, k).T @ right (n, m)"""
    middle = _round(left)
    with _library():
        sums = left[:middle].T @ right[:middle]
    if middle < len(left):
        sums += left[middle:].T.float() @ right[middle:].float()
    return sums


def add_to_sum(sums: Tensor, left: Tensor, right: Tensor) -> None:
    """sums += left.T @ right"""
    middle = _round(left)
    if middle:
        with _library():
            if sums.dtype == left.dtype:  # without a temporary for the product
                sums.addmm_(left[:middle].T, right[:middle])
            else:
                sums += left[:middle].T @ right[:middle]
    if middle < len(left):
        sums.addmm_(left[middle:].T.to(sums.dtype), right[middle:].to(sums.dtype))


# Kernels of oneDNN are compiled for numbers of rows with at most this many significant bits, and multiples of 64.
SIGNIFICANT_BITS = 5
BLOCK = 64


def round_rows(rows: int) -> int:
    """The largest round number of at most this many rows."""
    return rows - rows % max(BLOCK, 1 << max(rows.bit_length() - SIGNIFICANT_BITS, 0))


def _round(matrix: Tensor) -> int:
    """How many rows go to oneDNN, or to PyTorch's own choice of library."""
    return round_rows(len(matrix)) if matrix.is_cpu and has_faster_products(matrix.dtype) else len(matrix)


def _library() -> AbstractContextManager[None]:
    return _onednn() if has_faster_products(torch.float32) else nullcontext()


@contextmanager
def _onednn() -> Iterator[None]:
    """Compute float32 products with oneDNN.

    The setting is meant for processors that round inputs to bfloat16 in hardware (AMX); on all others it selects the
    library and nothing else, which `_is_exact` checks.
    """
    matmul = getattr(torch.backends.mkldnn, "matmul", None)  # since torch 2.9
    if matmul is None:
        yield
        return
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


@cache
def has_faster_products(precision: torch.dtype) -> bool:
    """Whether this module is faster than PyTorch's own choice of library on this processor, and as exact."""
    if precision == torch.bfloat16:
        return True
    is_wide_amd = vendor() == "AuthenticAMD" and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return precision == torch.float32 and is_wide_amd and _is_exact()


def _is_exact() -> bool:
    """Whether oneDNN computes float32 products in float32."""
    x = torch.linspace(0.5, 1.0, 64 * 64).view(64, 64)
    with _onednn():
        product = x @ x
    exact = x.double() @ x.double()
    return float((product - exact).abs().max() / exact.max()) < 1e-6
