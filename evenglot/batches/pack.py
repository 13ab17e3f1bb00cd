"""Pack pairs into batches of similar length and batches into updates; the result does not depend on the rank count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenglot.batches.draw import Indices
from evenglot.robust.validate import number
from evenglot.seeding import generator

TOKENS_PER_UPDATE = 65_536  # as in the paper
WINDOW = 2**20  # pairs sorted together: a quarter of this triples the padding, more takes longer and gains little

Lengths = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Plan:
    """Batch b holds the rows rows[starts[b] : stops[b]]; update k the batches from k * micro_batches on.

    Rows are positions in the sampled interval. A batch mixes languages, an update mixes lengths. The last three fields
    are token counts per batch: both sides, target side, and both sides with padding.
    """

    rows: Indices
    starts: Indices
    stops: Indices
    micro_batches: int
    tokens: Indices
    target_tokens: Indices
    padded_tokens: Indices

    def __len__(self) -> int:
        """Number of updates."""
        return -(-self.batches // self.micro_batches)

    @property
    def batches(self) -> int:
        """Number of batches."""
        return len(self.starts)

    def update(self, k: int) -> list[Indices]:
        """The rows of each micro-batch of update k, over all ranks."""
        batches = self._batches(k)
        return [self.rows[i:j] for i, j in zip(self.starts[batches], self.stops[batches], strict=True)]

    def share(self, k: int, rank: int, world: int) -> list[Indices]:
        """The micro-batches of one rank in update k: rank, rank + world, ...

        All ranks get the same number, to avoid a deadlock in collective operations; missing ones are empty arrays.
        """
        if not 0 <= rank < world:
            raise ValueError(f"rank: expected 0 to {world - 1} for {world} ranks, got {rank}")
        batches = self.update(k)
        missing = -len(batches) % world
        return (batches + [self.rows[:0]] * missing)[rank::world]

    def target_tokens_in(self, k: int) -> int:
        """Target tokens of update k over all ranks, the denominator of the mean loss."""
        return int(self.target_tokens[self._batches(k)].sum())

    def padding(self) -> float:
        """Fraction of padding in the tokens of both sides."""
        return 1 - float(self.tokens.sum() / self.padded_tokens.sum())

    def _batches(self, k: int) -> slice:
        if not 0 <= k < len(self):
            raise IndexError(f"update {k} is out of range for a plan with {len(self)} updates")
        return slice(k * self.micro_batches, (k + 1) * self.micro_batches)


def pack(
    source: Lengths,
    target: Lengths,
    *,
    budget: int,
    seed: int,
    interval: int,
    micro_batches: int | None = None,
    window: int = WINDOW,
    multiple: int = 1,
) -> Plan:
    """Pack the rows of an interval, given their lengths, into batches of at most `budget` tokens.

    A batch of B rows padded to S source and T target tokens has size B * max(S, T), as in fairseq; a single pair may
    exceed the budget. Each `window` of rows is sorted by length and cut into batches; then all batches are shuffled and
    grouped into updates of `micro_batches` (default: TOKENS_PER_UPDATE // budget, at least 1; the last update may be
    smaller). The number of rows of a batch is rounded down to a multiple of `multiple` if it is larger; use 8 on GPUs.
    """
    number(budget, "budget", 1)
    if micro_batches is None:
        micro_batches = max(1, TOKENS_PER_UPDATE // budget)
    for name, value in (("micro_batches", micro_batches), ("window", window), ("multiple", multiple)):
        number(value, name, 1)
    if source.shape != target.shape or source.size == 0 or min(source.min(), target.min()) < 1:
        raise ValueError(f"lengths: expected arrays of equal shape, 1 or more; got {source.shape} and {target.shape}")
    rows = np.empty(len(source), dtype=np.int64)
    cuts = [0]
    for first in range(0, len(source), window):
        here = slice(first, first + window)
        longest = np.maximum(source[here], target[here])
        rows[here] = first + _by_length(longest, target[here] - source[here])
        cuts += [first + stop for stop in _cut(longest, budget, multiple)]
    starts, stops = np.array(cuts[:-1]), np.array(cuts[1:])
    tokens, target_tokens, padded = _measure(source[rows], target[rows], starts, stops)
    order = generator(seed, "batches", interval).permutation(len(starts))
    return Plan(rows, starts[order], stops[order], micro_batches, tokens[order], target_tokens[order], padded[order])


def _by_length(longest: Lengths, difference: Lengths) -> Indices:
    """Sort by the longer side, then by the difference of the sides, ascending for odd and descending for even lengths.

    Alternating the direction keeps neighbours similar where one length ends and the next begins, which saves a third of
    the padding. Pairs of equal lengths keep their shuffled order, so that languages stay mixed.
    """
    turned = np.where(longest % 2 == 1, difference, -difference)
    narrow = np.min_scalar_type(~int(longest.max()))  # NumPy sorts 8-bit and 16-bit integers in linear time
    return np.lexsort((turned.astype(narrow), longest.astype(narrow)))


def _cut(longest: Lengths, budget: int, multiple: int) -> list[int]:
    """End of each batch, for rows sorted by `longest` and batches as large as the budget allows.

    A batch that begins at `start` and has rows of at most `width` tokens ends at start + budget // width, or where
    longer rows begin. The width is increased while the batch of the next width still extends past the last row of the
    current width. Since the width never decreases, the loop takes one step per batch and per length, not per row.
    """
    no_longer_than = np.cumsum(np.bincount(longest)).tolist()
    rows, widest = len(longest), len(no_longer_than) - 1
    stops, start, width = [], 0, 1
    while start < rows:
        while width < widest and start + budget // (width + 1) > no_longer_than[width]:
            width += 1
        fitting = max(1, min(no_longer_than[width] - start, budget // width))
        start += fitting - fitting % multiple if fitting > multiple else fitting
        stops.append(start)
    return stops


def _measure(source: Lengths, target: Lengths, starts: Indices, stops: Indices) -> tuple[Indices, Indices, Indices]:
    """Token counts per batch: both sides, target side, both sides with padding."""
    source_tokens, target_tokens = (np.add.reduceat(side, starts, dtype=np.int64) for side in (source, target))
    padded = (stops - starts) * (np.maximum.reduceat(source, starts) + np.maximum.reduceat(target, starts))
    return source_tokens + target_tokens, target_tokens, padded
