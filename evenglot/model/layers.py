"""The layers of the Transformer: attention to the sentence itself and to the source, and feed-forward networks.

Dimensions in comments: B sentences, S source and T target subwords, H heads, W hypotheses of a sentence in search.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the usual name)
from torch import Tensor, nn

from evenglot.model.cache import KeyValue
from evenglot.model.dropout import Dropout, dropout
from evenglot.model.products import Linear
from evenglot.model.shape import Shape


class EncoderLayer(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attention_norm = nn.LayerNorm(shape.dim)
        self.self_attention = SelfAttention(shape)
        self.feed_forward_norm = nn.LayerNorm(shape.dim)
        self.feed_forward = FeedForward(shape)
        self.dropout = Dropout(shape.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, S, dim)."""
        x = x + self.dropout(self.self_attention(self.self_attention_norm(x), mask))
        fed: Tensor = self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x + fed


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the source and feed-forward, each as x + sublayer(norm(x))."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attention_norm = nn.LayerNorm(shape.dim)
        self.self_attention = SelfAttention(shape)
        self.cross_attention_norm = nn.LayerNorm(shape.dim)
        self.cross_attention = CrossAttention(shape)
        self.feed_forward_norm = nn.LayerNorm(shape.dim)
        self.feed_forward = FeedForward(shape)
        self.dropout = Dropout(shape.dropout)

    def forward(self, x: Tensor, source: KeyValue, mask: Tensor | None) -> Tensor:
        """x (B, T, dim). Padding needs no mask: it is on the right, where the causal mask hides it."""
        x = x + self.dropout(self.self_attention(self.self_attention_norm(x), causal=True))
        return self._look_at_source(x, source, mask)

    def step(
        self, x: Tensor, source: KeyValue, padding: Tensor | None, past: KeyValue, hidden: Tensor
    ) -> tuple[Tensor, KeyValue]:
        """x (B, W, dim), the subwords after `past`; returns the hidden states and the extended `past`."""
        attended, past = self.self_attention.step(self.self_attention_norm(x), past, hidden)
        x = x + attended
        x = x + self.cross_attention.step(self.cross_attention_norm(x), source, padding)
        fed: Tensor = self.feed_forward(self.feed_forward_norm(x))
        return x + fed, past

    def _look_at_source(self, x: Tensor, source: KeyValue, mask: Tensor | None) -> Tensor:
        x = x + self.dropout(self.cross_attention(self.cross_attention_norm(x), source, mask))
        fed: Tensor = self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x + fed


class SelfAttention(nn.Module):
    """Self-attention. Rows of `qkv`: queries of all heads, then keys, then values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.attention_dropout
        self.qkv = _attention_input(shape.dim, 3)
        self.output = _linear(shape.dim, shape.dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """x (B, length, dim); mask: True for positions to attend to; causal: attend to no later positions."""
        query, key, value = _heads(self.qkv(x), 3, self.heads)
        attended = attention(query, key, value, mask, self.dropout * self.training, causal)
        mixed: Tensor = self.output(_joined(attended))
        return mixed

    def step(self, x: Tensor, past: KeyValue, hidden: Tensor) -> tuple[Tensor, KeyValue]:
        """x (B, W, dim): each hypothesis attends to its previous subwords and to itself; `hidden` as in `Cache`."""
        query, *new = _heads(self.qkv(x), 3, self.heads)
        columns = hidden.size(2)
        key, value = (_extended(old, added, columns) for old, added in zip(past, new, strict=True))
        attended = _attend(query, key[:, :, :columns], value[:, :, :columns], hidden[:, None])
        return self.output(_joined(attended)), (key, value)


class CrossAttention(nn.Module):
    """Attention from target to source. Rows of `kv`: keys of all heads, then values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.attention_dropout
        self.query = _attention_input(shape.dim, 1)
        self.kv = _attention_input(shape.dim, 2)
        self.output = _linear(shape.dim, shape.dim)

    def remember(self, states: Tensor) -> KeyValue:
        """Keys and values of the encoder states (B, S, dim)."""
        key, value = _heads(self.kv(states), 2, self.heads)
        return key, value

    def forward(self, x: Tensor, source: KeyValue, mask: Tensor | None) -> Tensor:
        """x (B, T, dim); source as returned by `remember`; mask as in `Memory`."""
        (query,) = _heads(self.query(x), 1, self.heads)
        attended = attention(query, *source, mask, self.dropout * self.training)
        mixed: Tensor = self.output(_joined(attended))
        return mixed

    def step(self, x: Tensor, source: KeyValue, padding: Tensor | None) -> Tensor:
        """x (B, W, dim): the hypotheses of a sentence attend to the same source; padding as in `_attend`."""
        (query,) = _heads(self.query(x), 1, self.heads)
        mixed: Tensor = self.output(_joined(_attend(query, *source, padding)))
        return mixed


class FeedForward(nn.Module):
    """Two linear layers with a ReLU in between."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.expand = _linear(shape.dim, shape.ffn)
        self.contract = _linear(shape.ffn, shape.dim)
        self.dropout = Dropout(shape.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Applied to each position independently."""
        contracted: Tensor = self.contract(self.dropout(F.relu(self.expand(x))))
        return contracted


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, causal: bool = False
) -> Tensor:
    """(B, H, T, dim / H): each query's average of the values, weighted by the softmax of its products with the keys.

    mask, causal: as for `SelfAttention`. PyTorch's own function has no fast kernel for dropout on a CPU.
    """
    if not (dropout_p and query.is_cpu):
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, causal)
    precision = value.dtype
    with torch.autocast("cpu", enabled=False):
        query, key, value = query.float(), key.float(), value.float()
        logits = (query * query.size(-1) ** -0.5) @ key.transpose(-2, -1)
        if mask is not None:
            logits = logits + torch.zeros(mask.shape, dtype=logits.dtype).masked_fill_(~mask, -math.inf)
        if causal:
            logits = logits + torch.full(logits.shape[-2:], -math.inf, dtype=logits.dtype).triu_(1)
        return (dropout(torch.softmax(logits, -1), dropout_p) @ value).to(precision)


def _extended(table: Tensor, added: Tensor, end: int) -> Tensor:
    """Write keys or values to the columns before `end`, into the same table if there is room."""
    first = end - added.size(2)
    if end > table.size(2):
        sentences, heads, _, size = table.shape
        larger = table.new_empty(sentences, heads, 2 * end, size)
        larger[:, :, :first] = table[:, :, :first]
        table = larger
    table[:, :, first:end] = added
    return table


def _attend(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor:
    """Attention of W hypotheses, without dropout; `hidden`: minus infinity for what they do not attend to, else 0."""
    if query.size(2) == 1:
        return F.scaled_dot_product_attention(query, key, value, None if hidden is None else hidden.to(query.dtype))
    logits: Tensor = query / math.sqrt(query.size(3)) @ key.transpose(2, 3)  # faster than the above with few queries
    if hidden is not None:
        logits += hidden
    return logits.softmax(-1) @ value


def _heads(projected: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """(B, length, parts * dim) -> for each part (B, H, length, dim / H)."""
    sentences, length, _ = projected.shape
    return projected.view(sentences, length, parts, heads, -1).permute(2, 0, 3, 1, 4).unbind()


def _joined(attended: Tensor) -> Tensor:
    """(B, H, length, dim / H) -> (B, length, dim)."""
    return attended.transpose(1, 2).flatten(2)


def _linear(inputs: int, outputs: int, kind: type[Linear] = Linear) -> Linear:
    linear = kind(inputs, outputs)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _attention_input(dim: int, parts: int) -> Linear:
    """Projection to queries, keys or values, or several of them; each part is initialised as in fairseq."""
    linear = _linear(dim, parts * dim, Linear if parts == 1 else JointProjection)
    for part in linear.weight.data.view(parts, dim, dim):
        nn.init.xavier_uniform_(part, gain=2**-0.5)
    return linear


class JointProjection(Linear):
    """A projection to several parts, the keys before the values at the end, whose key bias has no gradient.

    That bias adds the same value to all attention logits of a query, so it has no effect. Its gradient is only rounding
    error, which Adam would scale up to full steps, so that runs that differ only in rounding would diverge. (A hook on
    the parameter would be lost where FSDP puts another parameter in its place.)
    """

    def forward(self, x: Tensor) -> Tensor:
        """x (..., dim) -> (..., parts * dim)"""
        if not torch.is_grad_enabled():
            return self.product(x, self.bias)
        keys = slice(-2 * self.in_features, -self.in_features)
        return self.product(x, _Constant.apply(self.bias, keys))  # type: ignore[no-untyped-call]


class _Constant(torch.autograd.Function):
    """The same values, with no gradient for a part of them."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, part: slice) -> Tensor:
        ctx.part = part
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.clone()
        gradient[ctx.part] = 0
        return gradient, None
