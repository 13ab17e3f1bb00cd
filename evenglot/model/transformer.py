"""The paper's encoder-decoder Transformer: pre-norm, embedding layer norm, sinusoids, tied decoder embeddings.

Dimensions in comments: B sentences, S source and T target subwords, H heads. Padding is always on the right.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the usual name)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from evenglot.model.dropout import Dropout, dropout
from evenglot.model.interface import TranslationModel
from evenglot.model.products import Linear
from evenglot.model.sizes import SIZES
from evenglot.symbols import EOS, PAD

__all__ = ["SIZES", "Cache", "Memory", "Shape", "Transformer", "is_real", "sinusoids", "unpadded"]

KeyValue = tuple[Tensor, Tensor]  # both (B, H, length, dim / H)
MOST_POSITIONS = 100_000
LARGEST = 10_000_000  # of any other dimension
COMPACT_AT = 64  # see Cache; any number gives the same results


@dataclass(frozen=True)
class Shape:
    """Everything needed to build a model: Shape(source_pieces=30_000, target_pieces=10_000, **SIZES["base"]).

    `source_pieces`, `target_pieces`: vocabulary sizes. `share_embeddings`: one joint vocabulary and embedding for both.
    """

    source_pieces: int
    target_pieces: int
    dim: int
    ffn: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    dropout: float = 0.3
    attention_dropout: float = 0.3
    activation_dropout: float = 0.3
    max_positions: int = 512
    share_embeddings: bool = False

    def __post_init__(self) -> None:
        at_least = {"source_pieces": PAD + 1, "target_pieces": PAD + 1, "dim": 4}
        for name in ("ffn", "encoder_layers", "decoder_layers", "heads", "max_positions"):
            at_least[name] = 1
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
            most = MOST_POSITIONS if name == "max_positions" else LARGEST
            if getattr(self, name) > most:
                raise ValueError(f"{name}: expected at most {most:,}, got {getattr(self, name)}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 0 <= {name} < 1, got {getattr(self, name)}")
        if self.dim % 2:
            raise ValueError(f"dim: expected an even number (half of it sines, half cosines), got {self.dim}")
        if self.dim % self.heads:
            raise ValueError(f"heads: expected a divisor of dim = {self.dim}, got {self.heads}")
        if self.share_embeddings and self.source_pieces != self.target_pieces:
            raise ValueError(
                "share_embeddings: requires one vocabulary for both sides, "
                f"got source_pieces = {self.source_pieces} and target_pieces = {self.target_pieces}"
            )


@dataclass(frozen=True, eq=False)
class Memory:
    """Encoder output of B source sentences that the decoder attends to."""

    states: Tensor  # (B, S, dim): encoder states
    mask: Tensor | None  # (B, 1, 1, S): False for padding; None if there is no padding
    layers: tuple[KeyValue, ...]  # keys and values of each decoder layer

    def select(self, rows: Tensor) -> Memory:
        """The memory of these rows; rows may be dropped or repeated."""
        mask = None if self.mask is None else self.mask[rows]
        return Memory(self.states[rows], mask, _select(self.layers, rows))


@dataclass(frozen=True, eq=False)
class Cache:
    """Keys and values of each decoder layer for the previous subwords of W hypotheses for each of B source sentences.

    The hypotheses of a sentence share one table with C columns, which holds every subword that any of them was fed.
    `hidden` selects the columns of a hypothesis, so nothing is copied when hypotheses are dropped or continued twice.
    A cache can be used once: `Transformer.step` writes into its tables.
    """

    layers: tuple[KeyValue, ...]  # with room for more than C columns
    hidden: Tensor  # (B, W, C): 0 for the subwords of a hypothesis, minus infinity for those of others
    length: int  # number of subwords of a hypothesis
    compact_at: int = COMPACT_AT  # number of columns from which to remove those that no hypothesis uses

    def select(self, rows: Tensor) -> Cache:
        """The cache of these sentences; sentences may be dropped or repeated."""
        columns = self.hidden.size(2)
        used = tuple((key[:, :, :columns], value[:, :, :columns]) for key, value in self.layers)
        return replace(self, layers=_select(used, rows), hidden=self.hidden[rows])

    def follow(self, parents: Tensor) -> Cache:
        """The cache of hypotheses (B, W) that continue those numbered `parents`; they may be dropped or repeated."""
        hidden = self.hidden.gather(1, parents[:, :, None].expand(-1, -1, self.hidden.size(2)))
        if hidden.size(2) < self.compact_at:
            return replace(self, hidden=hidden)
        used = (hidden == 0).any(1)
        number = int(used.sum(1).max())
        columns = used.byte().topk(number).indices  # of a sentence with fewer, also some that stay hidden
        layers = tuple((_columns(key, columns), _columns(value, columns)) for key, value in self.layers)
        hidden = hidden.gather(2, columns[:, None].expand(-1, hidden.size(1), -1))
        return Cache(layers, hidden, self.length, max(COMPACT_AT, 2 * number))


class Transformer(TranslationModel):
    """The translation model. The output for a sentence does not depend on the rest of the batch.

    Positions are 0, 1, 2, ... from the first subword of a sentence; the first input of the decoder is </s>.
    Lengths may be on the CPU even if the model is on a GPU, which avoids synchronization.
    """

    positions: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.target_pieces, self.max_positions = shape.target_pieces, shape.max_positions
        # With a joint vocabulary there is no source embedding, so that no weight has two names in the state dict.
        self.source_embedding = None if shape.share_embeddings else _embedding(shape.source_pieces, shape.dim)
        self.target_embedding = _embedding(shape.target_pieces, shape.dim)
        self.encoder = Encoder(shape)
        self.decoder = Decoder(shape)
        self.packed_output: nn.Linear | None = None  # set by model/packed.py
        self.register_buffer("positions", sinusoids(shape.max_positions, shape.dim), persistent=False)

    @property
    def output_embedding(self) -> Tensor:
        """The input embedding of the decoder, also used as output layer: logits = hidden @ output_embedding.T."""
        return self.target_embedding.weight

    def forward(self, source: Tensor, source_lengths: Tensor, target: Tensor, target_lengths: Tensor) -> Tensor:
        """Hidden states (n, dim) that predict the n target subwords (without padding), sentence by sentence.

        `target` ends with </s> and is shifted here: subword t is predicted from </s> and the subwords before t.
        """
        seen = F.pad(target[:, :-1], (1, 0), value=EOS)
        hidden = self.decode(seen, self.encode(source, source_lengths))
        return unpadded(hidden, target_lengths)

    def encode(self, source: Tensor, source_lengths: Tensor) -> Memory:
        """Encode source sentences."""
        real = is_real(source_lengths, source.size(1))
        mask = None if bool(real.all()) else real[:, None, None].to(source.device)
        pieces = self.target_embedding if self.source_embedding is None else self.source_embedding
        states: Tensor = self.encoder(self._embed(pieces, source, "source"), mask)
        return Memory(states, mask, self.decoder.remember(states))

    def decode(self, seen: Tensor, memory: Memory) -> Tensor:
        """Hidden states (B, T, dim) after each subword of `seen`, which starts with </s>."""
        hidden: Tensor = self.decoder(self._embed(self.target_embedding, seen, "target"), memory)
        return hidden

    def start(self, memory: Memory) -> Cache:
        """An empty cache with one hypothesis per sentence."""
        layers = tuple((key[:, :, :0], value[:, :, :0]) for key, value in memory.layers)
        return Cache(layers, memory.states.new_zeros(len(memory.states), 1, 0), 0)

    def step(self, pieces: Tensor, memory: Memory, cache: Cache) -> tuple[Tensor, Cache]:
        """Feed one subword per hypothesis (B, W), first </s>: hidden states (B, W, dim), and the extended cache."""
        embedded = self._embed(self.target_embedding, pieces[:, :, None], "target", cache.length)
        return self.decoder.step(embedded[:, :, 0], memory, cache)

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., target_pieces) of hidden states (..., dim)."""
        if self.packed_output is None:
            return F.linear(hidden, self.output_embedding)
        logits: Tensor = self.packed_output(hidden)
        return logits

    def recompute_layers(self) -> None:
        """Gradient checkpointing."""
        self.encoder.recompute = self.decoder.recompute = True

    def units(self) -> list[list[nn.Module]]:
        """The layers; keys and values of the source are computed for all decoder layers at once, before them."""
        of_source: list[nn.Module] = [layer.cross_attention.kv for layer in self.decoder.own_layers()]
        return [[layer] for layer in self.encoder.layers] + [of_source] + [[layer] for layer in self.decoder.layers]

    def description(self) -> dict[str, Any]:
        """The shape."""
        return {"shape": asdict(self.shape)}

    def _embed(self, embedding: nn.Embedding, ids: Tensor, side: str, first: int = 0) -> Tensor:
        """Scaled subword embeddings plus position embeddings."""
        end = first + ids.size(-1)
        if end > self.shape.max_positions:
            raise ValueError(f"{side}: {end} subwords exceed the {self.shape.max_positions} positions of the model")
        embedded: Tensor = embedding(ids) * math.sqrt(self.shape.dim) + self.positions[first:end]
        return embedded


class Encoder(nn.Module):
    """Maps embedded source subwords to encoder states."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding_norm = nn.LayerNorm(shape.dim)
        self.dropout = Dropout(shape.dropout)
        self.layers = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.encoder_layers))
        self.recompute = False
        self.final_norm = nn.LayerNorm(shape.dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, S, dim); mask as in `Memory`."""
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = _applied(layer, x, mask, recompute=self.recompute)
        states: Tensor = self.final_norm(x)
        return states


class Decoder(nn.Module):
    """Maps embedded target subwords to hidden states, for whole sentences (`forward`) or incrementally (`step`)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding_norm = nn.LayerNorm(shape.dim)
        self.dropout = Dropout(shape.dropout)
        self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.decoder_layers))
        self.recompute = False
        self.final_norm = nn.LayerNorm(shape.dim)

    def remember(self, states: Tensor) -> tuple[KeyValue, ...]:
        """Keys and values of the encoder states for each layer."""
        return tuple(layer.cross_attention.remember(states) for layer in self.own_layers())

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, T, dim)."""
        x = self.dropout(self.embedding_norm(x))
        for layer, source in zip(self.layers, memory.layers, strict=True):
            x = _applied(layer, x, source, memory.mask, recompute=self.recompute)
        states: Tensor = self.final_norm(x)
        return states

    def step(self, x: Tensor, memory: Memory, cache: Cache) -> tuple[Tensor, Cache]:
        """x (B, W, dim): for each hypothesis, the subword that follows those in the cache."""
        x = self.embedding_norm(x)
        own = _hidden(torch.eye(x.size(1), dtype=torch.bool, device=x.device), x.dtype)
        hidden = torch.cat([cache.hidden, own.expand(len(x), -1, -1)], 2)
        padding = None if memory.mask is None else _hidden(memory.mask, x.dtype)
        layers = []
        for layer, source, past in zip(self.own_layers(), memory.layers, cache.layers, strict=True):
            x, seen = layer.step(x, source, padding, past, hidden)
            layers.append(seen)
        return self.final_norm(x), replace(cache, layers=tuple(layers), hidden=hidden, length=cache.length + 1)

    def own_layers(self) -> list[DecoderLayer]:
        """The layers."""
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]  # for mypy; all are


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


def sinusoids(positions: int, dim: int) -> Tensor:
    """Sinusoidal position embeddings (positions, dim) as in fairseq: first half sines, second half cosines."""
    half = dim // 2
    frequency = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10_000) / (half - 1)))
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], 1).float()


def is_real(lengths: Tensor, width: int) -> Tensor:
    """(B, width), on the device of the lengths: True for subwords, False for padding."""
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def unpadded(padded: Tensor, lengths: Tensor) -> Tensor:
    """The entries of `padded` (B, T, ...) that are not padding, sentence by sentence."""
    places = is_real(lengths, padded.size(1)).flatten().nonzero().squeeze(1)
    return padded.flatten(0, 1)[places.to(padded.device)]


def _applied(layer: nn.Module, *inputs: Any, recompute: bool) -> Tensor:
    """The output of a layer. `recompute`: the backward pass computes it again, with the same dropout."""
    if recompute and torch.is_grad_enabled():
        output: Tensor = checkpoint(layer, *inputs, use_reentrant=False)
    else:
        output = layer(*inputs)
    return output


def _select(layers: tuple[KeyValue, ...], rows: Tensor) -> tuple[KeyValue, ...]:
    # index_select is twice as fast as key[rows]
    return tuple((key.index_select(0, rows), value.index_select(0, rows)) for key, value in layers)


def _hidden(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where `seen` is True, minus infinity elsewhere."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)


def _columns(table: Tensor, columns: Tensor) -> Tensor:
    """These columns (B, n) of a table of keys or values."""
    return table.gather(2, columns[:, None, :, None].expand(-1, table.size(1), -1, table.size(3)))


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


def _embedding(pieces: int, dim: int) -> nn.Embedding:
    embedding = nn.Embedding(pieces, dim, padding_idx=PAD)
    nn.init.normal_(embedding.weight, std=dim**-0.5)
    nn.init.zeros_(embedding.weight.data[PAD])
    return embedding


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
