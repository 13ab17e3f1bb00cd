"""What the decoder attends to: the encoded source (`Memory`), and in search the previous subwords (`Cache`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

KeyValue = tuple[Tensor, Tensor]  # both (B, H, length, dim / H)
COMPACT_AT = 64  # see Cache; any number gives the same results


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


def minus_infinity_unless(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where `seen` is True, minus infinity elsewhere: to be added to attention logits."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)


def _select(layers: tuple[KeyValue, ...], rows: Tensor) -> tuple[KeyValue, ...]:
    # index_select is twice as fast as key[rows]
    return tuple((key.index_select(0, rows), value.index_select(0, rows)) for key, value in layers)


def _columns(table: Tensor, columns: Tensor) -> Tensor:
    """These columns (B, n) of a table of keys or values."""
    return table.gather(2, columns[:, None, :, None].expand(-1, table.size(1), -1, table.size(3)))
