"""Collate one rank's share of each update into tensors, from any start position, in a background thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from evenglot.batches.draw import DirectionIds, Indices, Interval
from evenglot.batches.pack import Lengths, Plan, pack
from evenglot.sequences import ParallelSequences, Sequences


@dataclass(frozen=True, eq=False)
class Batch:
    """B sentence pairs, padded on the right to S source and T target ids. Targets end with </s>; the model shifts them.

    `weight` is 1, or 0 for a dummy batch: a rank without a micro-batch runs one pair that must not affect the loss.
    """

    source: Tensor  # (B, S) int64
    target: Tensor  # (B, T) int64
    source_lengths: Tensor  # (B,) int64
    target_lengths: Tensor  # (B,) int64
    direction: Tensor  # (B,) int64: indices into Loader.names
    weight: float = 1.0

    def to(self, device: torch.device) -> Batch:
        """Move ids to a device. Lengths and directions stay on the CPU, where they are read."""
        return replace(self, source=self.source.to(device), target=self.target.to(device))

    def first(self, sentences: int) -> Batch:
        """The first sentence pairs, with the same padding."""
        return Batch(
            self.source[:sentences],
            self.target[:sentences],
            self.source_lengths[:sentences],
            self.target_lengths[:sentences],
            self.direction[:sentences],
            self.weight,
        )


@dataclass(frozen=True, eq=False)
class Loader:
    """One rank's batches of one interval. Any update can be built from the plan in any order, at the same cost."""

    corpora: Mapping[str, ParallelSequences]
    interval: Interval
    plan: Plan
    pad: int
    rank: int = 0
    world: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Direction names; `Batch.direction` indexes them."""
        return self.interval.names

    def __len__(self) -> int:
        """Number of updates."""
        return len(self.plan)

    def update(self, k: int) -> list[Batch]:
        """This rank's micro-batches of update k; their number is the same on all ranks."""
        stand_in = self.plan.update(k)[0][:1]
        return [
            self._collate(rows, 1.0) if len(rows) else self._collate(stand_in, 0.0)
            for rows in self.plan.share(k, self.rank, self.world)
        ]

    def iterate(self, start: int = 0, ahead: int = 2) -> Iterator[tuple[int, list[Batch]]]:
        """Yield updates from `start` on with their numbers, while a thread prepares up to `ahead` more.

        Exceptions in the thread are raised here. The thread ends with the iteration, even if it is closed early.
        """
        if not 0 <= start <= len(self):
            raise IndexError(f"start: expected 0 to {len(self)} (number of updates of the interval), got {start}")
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
        pending: deque[Future[list[Batch]]] = deque()
        try:
            for k in range(start, len(self)):
                soon = range(k + len(pending), min(k + ahead + 1, len(self)))
                pending.extend(thread.submit(self.update, j) for j in soon)
                yield k, pending.popleft().result()
        finally:
            thread.shutdown(cancel_futures=True)

    def _collate(self, rows: Indices, weight: float) -> Batch:
        corpora = [self.corpora[name] for name in self.names]
        return collate(corpora, self.interval.direction[rows], self.interval.pair[rows], self.pad, weight)


def load(
    corpora: Mapping[str, ParallelSequences],
    interval: Interval,
    *,
    budget: int,
    pad: int,
    micro_batches: int | None = None,
    multiple: int = 1,
    rank: int = 0,
    world: int = 1,
) -> Loader:
    """Pack a sampled interval into batches and updates (see `pack`) for this rank to iterate over.

    loader = load(corpora, draw(sizes, q, seed=1, interval=0), budget=4096, pad=2)
    """
    source, target = interval.take(lambda name, pairs: _lengths(corpora[name], pairs))
    plan = pack(
        source,
        target,
        budget=budget,
        seed=interval.seed,
        interval=interval.number,
        micro_batches=micro_batches,
        multiple=multiple,
    )
    return Loader(corpora, interval, plan, pad, rank, world)


def _lengths(corpus: ParallelSequences, pairs: Indices) -> Lengths:
    """Source and target lengths of these pairs, in two rows."""
    sides = (corpus.source, corpus.target)
    if 2 * len(pairs) > len(corpus):  # looking up each pair once, in a smaller array, takes half the time
        return np.stack([side.lengths.astype(np.int32)[pairs] for side in sides])
    return np.stack([(side.offsets[pairs + 1] - side.offsets[pairs]).astype(np.int32) for side in sides])


def collate(
    corpora: Sequence[ParallelSequences], direction: DirectionIds, pair: Indices, pad: int, weight: float = 1.0
) -> Batch:
    """Build the batch of these sentence pairs: row r is pair[r] of corpora[direction[r]]."""
    source, source_lengths = _padded([corpus.source for corpus in corpora], direction, pair, pad)
    target, target_lengths = _padded([corpus.target for corpus in corpora], direction, pair, pad)
    return Batch(source, target, source_lengths, target_lengths, torch.from_numpy(direction.astype(np.int64)), weight)


def _padded(corpora: Sequence[Sequences], direction: DirectionIds, pair: Indices, pad: int) -> tuple[Tensor, Tensor]:
    """Padded ids and lengths; row r has the ids of sentence pair[r] of corpora[direction[r]], padded on the right.

    Uses one gather per corpus of the batch, since each has its own memory map, rather than one per row.
    """
    starts, lengths = np.empty_like(pair), np.empty_like(pair)
    members = [(corpora[d], np.flatnonzero(direction == d)) for d in np.unique(direction)]
    for corpus, rows in members:
        starts[rows] = corpus.offsets[pair[rows]]
        lengths[rows] = corpus.offsets[pair[rows] + 1] - starts[rows]
    padded = np.full((len(pair), lengths.max()), pad, dtype=np.int64)
    for corpus, rows in members:
        row = np.repeat(rows, lengths[rows])
        column = _count_up(lengths[rows])
        padded[row, column] = corpus.ids[starts[row] + column]
    return torch.from_numpy(padded), torch.from_numpy(lengths)


def _count_up(lengths: Indices) -> Indices:
    """Concatenation of 0, 1, ..., length - 1 for each length."""
    first = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) - np.repeat(first, lengths)
