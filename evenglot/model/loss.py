"""Label-smoothed cross-entropy from hidden states, computed in chunks; sums per sentence and per direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from evenglot.model.devices import sum_type
from evenglot.model.interface import TranslationModel
from evenglot.model.products import BLOCK, add_to_sum, product_precision, rows_times
from evenglot.model.transformer import is_real, unpadded

# Maximum number of logits in memory, 32 MB in float32. Smaller chunks are slower with a large vocabulary and model,
# larger ones need more memory (benchmarks/results/loss_memory.md). On a CPU, the fastest are 4 blocks of rows: more
# logits do not fit into the cache, with fewer the gradient of the embedding is read and written too often. So where
# there is this gradient, up to 256 MB are used: with the 256,206 subwords of NLLB, it is four times as large itself.
CHUNK_LOGITS = 8_000_000
CHUNK_ON_CPU = 4 * BLOCK
CHUNK_LOGITS_ON_CPU = 1 << 26


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


def batch_loss(model: TranslationModel, batch: PaddedBatch, weights: Tensor, smoothing: float) -> BatchLoss:
    """Run the model on a batch. `weights` (B,) are factors on the token losses of each sentence.

    `batches.load.Batch.weight` is not applied here; the caller must include it in `weights`.
    """
    return loss_of_hidden(hidden_states(model, batch), model, batch, weights, smoothing)


def hidden_states(model: TranslationModel, batch: PaddedBatch) -> Tensor:
    """Run the model on a batch up to the output layer: the hidden states of all target tokens (n, dim)."""
    hidden: Tensor = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
    return hidden


def loss_of_hidden(
    hidden: Tensor, model: TranslationModel, batch: PaddedBatch, weights: Tensor, smoothing: float
) -> BatchLoss:
    """As `batch_loss`, from the hidden states of the batch."""
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
    """(directions,) float64, if the device has it: sums of values (B,) by direction (B,), for example losses."""
    dtype = sum_type(values.device)
    sums = torch.zeros(directions, dtype=dtype, device=values.device)
    return sums.index_add(0, direction, values.to(dtype))


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
    is_trained = embedding.requires_grad and torch.is_grad_enabled()
    chunk = chunk or chunk_size(len(embedding), hidden.device, trained=is_trained)
    objective, losses = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, embedding, target, weights, smoothing, chunk, torch.is_grad_enabled()
    )
    return objective, losses


def chunk_size(pieces: int, device: torch.device, *, trained: bool = True) -> int:
    """Tokens whose logits over a vocabulary are computed at a time; on a CPU in whole blocks (see `products`).

    `trained`: the gradient of the embedding is computed, too.
    """
    if device.type != "cpu":
        return max(1, CHUNK_LOGITS // pieces)
    most = (CHUNK_LOGITS_ON_CPU if trained else CHUNK_LOGITS) // pieces
    return min(max(most // BLOCK, 1) * BLOCK, CHUNK_ON_CPU)


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
            is_trained = ctx.needs_input_grad[1]  # a frozen embedding saves a third of the products
            of_embedding = torch.zeros_like(embedding, dtype=exact) if is_trained else None
            gradients = torch.zeros_like(hidden, dtype=exact), of_embedding
            ctx.save_for_backward(*gradients, largest)
        precision = product_precision(hidden)
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
        of_embedding = None if embedding is None else embedding * factor
        return hidden * factor, of_embedding, None, None, None, None, None


def _losses(
    hidden: Tensor,
    embedding: Tensor,
    target: Tensor,
    smoothing: float,
    chunk: int,
    weights: Tensor,
    gradients: tuple[Tensor, Tensor | None] | None,
) -> Tensor:
    """Loss of each token; adds the gradients of the weighted sum to `gradients`, as far as they are not None.

    d loss_i / d logits = p - (1 - smoothing) [target_i] - smoothing / V. The last term is the same for all subwords and
    tokens, so its products with the embedding and the hidden states are taken once, outside the loop over chunks.
    """
    losses = torch.empty_like(weights)
    buffers = _Buffers(min(chunk, len(target)), embedding, weights.dtype)
    mean_embedding = embedding.mean(0, dtype=weights.dtype)
    for first in range(0, len(target), chunk):
        here = slice(first, first + chunk)
        log_z, gold, p = _softmax(hidden[here], embedding, target[here, None], buffers)
        mean_logit = hidden[here].to(weights.dtype) @ mean_embedding
        losses[here] = log_z - (1 - smoothing) * gold - smoothing * mean_logit
        if gradients is not None:
            of_hidden, of_embedding = gradients
            less_gold = p.scatter_add_(1, target[here, None], p.new_full((len(p), 1), smoothing - 1)).to(hidden.dtype)
            of_hidden[here] = rows_times(less_gold, embedding)
            if of_embedding is not None:
                weighted = (weights[here, None] * hidden[here]).to(hidden.dtype)
                add_to_sum(of_embedding, less_gold, weighted)
    if gradients is not None:
        of_hidden, of_embedding = gradients
        of_hidden.sub_(smoothing * mean_embedding).mul_(weights[:, None])
        if of_embedding is not None:
            of_embedding.sub_(smoothing / len(embedding) * (weights @ hidden.to(weights.dtype)))
    return losses


class _Buffers:
    """Memory for logits and probabilities, used again for every chunk: to get it anew from the system takes longer."""

    def __init__(self, rows: int, embedding: Tensor, exact: torch.dtype) -> None:
        self.logits = embedding.new_empty(rows, len(embedding))
        self.p = embedding.new_empty(self.logits.shape, dtype=exact)


def _softmax(hidden: Tensor, embedding: Tensor, gold: Tensor, buffers: _Buffers) -> tuple[Tensor, Tensor, Tensor]:
    """log sum exp of the logits (n,), the logits of the gold subwords (n,), and the softmax (n, V), in a buffer."""
    logits = rows_times(hidden, embedding.T, out=buffers.logits[: len(hidden)])
    p = torch.softmax(logits, 1, dtype=buffers.p.dtype, out=buffers.p[: len(hidden)])
    largest = logits.amax(1).to(p.dtype)
    return largest - p.amax(1).log(), logits.gather(1, gold).squeeze(1).to(p.dtype), p
