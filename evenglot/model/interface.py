"""What training, search and inference need of a model: our own Transformer, or an adapter for a pretrained one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from torch import Tensor, nn

from evenglot.symbols import OURS, Symbols


class Memory(Protocol):
    """What the decoder attends to, of B source sentences."""

    @property
    def states(self) -> Tensor:
        """(B, S, dim)"""

    def select(self, rows: Tensor) -> Self:
        """The memory of these rows; rows may be dropped or repeated."""


class Cache(Protocol):
    """What a model keeps of the previous subwords of W hypotheses for each of B source sentences. Used once."""

    def select(self, rows: Tensor) -> Self:
        """The cache of these sentences; sentences may be dropped or repeated."""

    def follow(self, parents: Tensor) -> Self:
        """The cache of hypotheses (B, W) that continue those numbered `parents`; they may be dropped or repeated."""


class TranslationModel(nn.Module):
    """An encoder-decoder. `forward` takes source ids (B, S), their lengths, target ids (B, T) and their lengths.

    It returns hidden states (n, dim) that predict the n target subwords (without padding), sentence by sentence. The
    target is shifted in `forward`. Memory and cache belong to the model: search only selects rows of them.
    """

    symbols: Symbols = OURS
    target_pieces: int
    max_positions: int

    @property
    def output_embedding(self) -> Tensor:
        """(target_pieces, dim): logits = hidden @ output_embedding.T."""
        raise NotImplementedError

    def encode(self, source: Tensor, source_lengths: Tensor) -> Memory:
        """Encode source sentences."""
        raise NotImplementedError

    def start(self, memory: Any) -> Cache:
        """An empty cache with one hypothesis per sentence."""
        raise NotImplementedError

    def step(self, pieces: Tensor, memory: Any, cache: Any) -> tuple[Tensor, Cache]:
        """Feed one subword per hypothesis (B, W): hidden states (B, W, dim), and the extended cache."""
        raise NotImplementedError

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., target_pieces) of hidden states (..., dim)."""
        raise NotImplementedError

    def recompute_layers(self) -> None:
        """Gradient checkpointing: in training, keep only the inputs of each layer and compute the rest again.

        Losses and gradients are the same; it takes less memory and about a third more time.
        """
        raise NotImplementedError

    def units(self) -> list[list[nn.Module]]:
        """Modules whose weights are gathered together, where weights are divided among processes: the layers.

        They run by being called, those of one unit in this order and with nothing else in between.
        """
        stacks = [module for module in self.modules() if isinstance(module, nn.ModuleList)]
        inner = {id(part) for stack in stacks for layer in stack for part in layer.modules()}
        return [[layer] for stack in stacks if id(stack) not in inner for layer in stack]

    def description(self) -> Mapping[str, Any]:
        """Plain values from which the model can be built again, without its weights; stored in checkpoints."""
        raise NotImplementedError
