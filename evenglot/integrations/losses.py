"""Cross-entropy of every label, from a model's logits, without a second copy of them.

`torch.nn.functional.cross_entropy` keeps the log-probabilities until the backward pass, in float32: with the 256,000
subwords of NLLB, they take more memory than the rest of the model's activations. Here only the logits are kept, and
only the labels that count are computed, some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORED = -100  # a label that does not count, as in transformers
CHUNK_LOGITS = 8_000_000  # logits that are computed with at a time: 32 MB in float32


def label_losses(logits: Tensor, labels: Tensor, smoothing: float = 0.0, chunk: int = CHUNK_LOGITS) -> Tensor:
    """The loss of every label, in the labels' shape and at least in float32; 0 where the label is -100.

    logits (..., V), labels (...). With lp = log softmax(logits_i),

        loss_i = (1 - smoothing) (-lp[label_i]) + smoothing / V sum_w (-lp[w]).
    """
    losses: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits.flatten(0, -2), labels.flatten(), smoothing, chunk
    )
    return losses.view(labels.shape)


class _CrossEntropy(torch.autograd.Function):
    """logits (n, V), labels (n,) -> losses (n,)"""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float, chunk: int) -> Tensor:
        exact = torch.promote_types(logits.dtype, torch.float32)
        losses = logits.new_zeros(len(labels), dtype=exact)
        log_z = torch.zeros_like(losses)
        for rows in _rows_that_count(labels, logits.size(1), chunk):
            scores = logits[rows].to(exact)
            log_z[rows] = scores.logsumexp(1)
            gold = scores.gather(1, labels[rows, None]).squeeze(1)
            losses[rows] = log_z[rows] - (1 - smoothing) * gold
            if smoothing:
                losses[rows] -= smoothing * scores.mean(1)
        ctx.save_for_backward(logits, labels, log_z)
        ctx.smoothing, ctx.chunk = smoothing, chunk
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        """d loss_i / d logits_i = p - (1 - smoothing) [label_i] - smoothing / V"""
        logits, labels, log_z = ctx.saved_tensors
        result = torch.zeros_like(logits)
        for rows in _rows_that_count(labels, logits.size(1), ctx.chunk):
            p = logits[rows].to(log_z.dtype).sub_(log_z[rows, None]).exp_()
            p.sub_(ctx.smoothing / logits.size(1))
            p.scatter_add_(1, labels[rows, None], p.new_full((len(rows), 1), ctx.smoothing - 1))
            result[rows] = p.mul_(gradients[rows, None]).to(result.dtype)
        return result, None, None, None


def _rows_that_count(labels: Tensor, classes: int, chunk: int) -> Iterator[Tensor]:
    """The places of the labels that count, in chunks of at most `chunk` logits."""
    rows = (labels != IGNORED).nonzero().squeeze(1)
    yield from torch.split(rows, max(1, chunk // classes))
