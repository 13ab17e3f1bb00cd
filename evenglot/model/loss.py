"""Label-smoothed cross-entropy from hidden states, computed in chunks; sums per sentence and per direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from evenglot.model.transformer import Transformer, is_real, unpadded

# Maximum number of logits in memory, 32 MB in float32. Smaller chunks are slower with a large vocabulary and model,
# larger ones need more memory (benchmarks/results/loss_memory.md).
CHUNK_LOGITS = 8_000_000


class PaddedBatch(Protocol):
    """B sentence pairs, padded on the right to S source and T target ids (implemented by batches.load.Batch)."""

    @property
    def source(self) -> Tensor:
        """(B, S)"""

    @property
    def target(self) -> Tensor:
        """(B, T)"""

    @property
    def source_lengths(self) -> Tensor:
        """(B,)"""

    @property
    def target_lengths(self) -> Tensor:
        """(B,)"""


@dataclass(frozen=True, eq=False)
class BatchLoss:
    """The loss of a batch: the training objective, and the loss sums for logging and balancing."""

    objective: Tensor  # scalar with gradient: sum of weight * loss over all target tokens
    sums: Tensor  # (B,): loss summed over the tokens of each sentence, unweighted, without gradient


def batch_loss(model: Transformer, batch: PaddedBatch, weights: Tensor, smoothing: float) -> BatchLoss:
    """Run the model on a batch. `weights` (B,) are factors on the token losses of each sentence.

    `batches.load.Batch.weight` is not applied here; the caller must include it in `weights`.
    """
    hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
    real = is_real(batch.target_lengths, batch.target.size(1)).to(hidden.device)
    objective, losses = smoothed_cross_entropy(
        hidden,
        model.output_embedding,
        unpadded(batch.target, batch.target_lengths),
        unpadded(weights.to(hidden.device)[:, None].expand(real.shape), batch.target_lengths),
        smoothing,
    )
    sums = losses.new_zeros(real.shape).masked_scatter(real, losses).sum(1)
    return BatchLoss(objective, sums)


def direction_sums(values: Tensor, direction: Tensor, directions: int) -> Tensor:
    """(directions,) float64: sums of values (B,) by direction (B,), for example losses or token counts."""
    sums = torch.zeros(directions, dtype=torch.float64, device=values.device)
    return sums.index_add(0, direction, values.double())


def smoothed_cross_entropy(
    hidden: Tensor, embedding: Tensor, target: Tensor, weights: Tensor, smoothing: float, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """Loss of n tokens: sum_i weights_i * loss_i, differentiable; and loss_i (n,), without gradient.

    hidden (n, dim), embedding (V, dim), target (n,), weights (n,). With lp = log softmax(embedding @ hidden_i),

        loss_i = (1 - smoothing) (-lp[target_i]) + smoothing / V sum_w (-lp[w]).

    Only the logits of `chunk` tokens are in memory at a time. Gradients flow to hidden and embedding, not to weights.
    Under autocast, products are computed in low precision, softmax and sums in float32.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing: expected 0 <= smoothing < 1, got {smoothing}")
    chunk = chunk or max(1, CHUNK_LOGITS // len(embedding))
    objective, losses = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, embedding, target, weights, smoothing, chunk, torch.is_grad_enabled()
    )
    return objective, losses


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Computes the gradients in the forward pass, where the logits are available, and saves nothing else.

    Weights are divided by the largest one in the forward pass, and gradients multiplied by it in the backward pass:
    with weights such as 1 / (tokens on all ranks), gradients would underflow in float16.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        embedding: Tensor,
        target: Tensor,
        weights: Tensor,
        smoothing: float,
        chunk: int,
        grad_enabled: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        weights = weights.to(exact)
        largest = weights.abs().max().clamp_min(torch.finfo(exact).tiny)
        gradients = None
        if grad_enabled and any(ctx.needs_input_grad[:2]):
            gradients = torch.zeros_like(hidden, dtype=exact), torch.zeros_like(embedding, dtype=exact)
            ctx.save_for_backward(*gradients, largest)
        precision = _product_precision(hidden, embedding)
        with torch.autocast(hidden.device.type, enabled=False):
            losses = _losses(
                hidden.to(precision), embedding.to(precision), target, smoothing, chunk, weights / largest, gradients
            )
        ctx.mark_non_differentiable(losses)
        return (weights * losses).sum(), losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_objective: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, embedding, largest = ctx.saved_tensors
        factor = grad_objective * largest
        return hidden * factor, embedding * factor, None, None, None, None, None


def _product_precision(hidden: Tensor, embedding: Tensor) -> torch.dtype:
    """The precision of the product of hidden states and embedding."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return torch.promote_types(hidden.dtype, embedding.dtype)


def _losses(
    hidden: Tensor,
    embedding: Tensor,
    target: Tensor,
    smoothing: float,
    chunk: int,
    weights: Tensor,
    gradients: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """Loss of each token; adds the gradients of the weighted sum to `gradients` unless it is None."""
    losses = torch.empty_like(weights)
    for first in range(0, len(target), chunk):
        here = slice(first, first + chunk)
        rows = None if gradients is None else (gradients[0][here], gradients[1])
        losses[here] = _chunk_losses(hidden[here], embedding, target[here, None], smoothing, weights[here, None], rows)
    return losses


def _chunk_losses(
    hidden: Tensor,
    embedding: Tensor,
    gold: Tensor,
    smoothing: float,
    weights: Tensor,
    gradients: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """As `_losses`, for the tokens of one chunk; gold and weights are column vectors."""
    log_p = torch.log_softmax(hidden @ embedding.T, 1, dtype=weights.dtype)
    losses = (smoothing - 1) * log_p.gather(1, gold).squeeze(1) - smoothing * log_p.mean(1)
    if gradients is not None:
        of_hidden, of_embedding = gradients
        of_logits = _unweighted_gradient(log_p, gold, smoothing).to(hidden.dtype)
        of_hidden += weights * (of_logits @ embedding)
        _add_product(of_embedding, of_logits.T, (weights * hidden).to(hidden.dtype))
    return losses


def _unweighted_gradient(log_p: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """d loss / d logits = p - smoothing / V - (1 - smoothing) [gold], computed in place of log_p to save memory."""
    grad = log_p.exp_().sub_(smoothing / log_p.size(1))
    return grad.scatter_add_(1, gold, torch.full_like(gold, smoothing - 1, dtype=grad.dtype))


def _add_product(sums: Tensor, left: Tensor, right: Tensor) -> None:
    """sums += left @ right, without a temporary for the product if the precisions are equal."""
    if sums.dtype == left.dtype:
        sums.addmm_(left, right)
    else:
        sums += left @ right
