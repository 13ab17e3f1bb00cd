"""The paper's encoder-decoder Transformer: pre-norm, embedding layer norm, sinusoids, tied decoder embeddings.

Dimensions in comments: B sentences, S source and T target subwords, H heads. Padding is always on the right.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the usual name)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from evenglot.model.cache import Cache, KeyValue, Memory, minus_infinity_unless
from evenglot.model.dropout import Dropout
from evenglot.model.interface import TranslationModel
from evenglot.model.layers import DecoderLayer, EncoderLayer
from evenglot.model.shape import Shape
from evenglot.symbols import EOS, PAD


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
        own = minus_infinity_unless(torch.eye(x.size(1), dtype=torch.bool, device=x.device), x.dtype)
        hidden = torch.cat([cache.hidden, own.expand(len(x), -1, -1)], 2)
        padding = None if memory.mask is None else minus_infinity_unless(memory.mask, x.dtype)
        layers = []
        for layer, source, past in zip(self.own_layers(), memory.layers, cache.layers, strict=True):
            x, seen = layer.step(x, source, padding, past, hidden)
            layers.append(seen)
        return self.final_norm(x), replace(cache, layers=tuple(layers), hidden=hidden, length=cache.length + 1)

    def own_layers(self) -> list[DecoderLayer]:
        """The layers."""
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]  # for mypy; all are


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


def _embedding(pieces: int, dim: int) -> nn.Embedding:
    embedding = nn.Embedding(pieces, dim, padding_idx=PAD)
    nn.init.normal_(embedding.weight, std=dim**-0.5)
    nn.init.zeros_(embedding.weight.data[PAD])
    return embedding
