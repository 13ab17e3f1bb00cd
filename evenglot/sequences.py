"""Token ids of many sentences as two flat arrays: what the store keeps on disk and batches read from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sentence i is ids[offsets[i] : offsets[i + 1]]. Both arrays may be memory-mapped."""

    ids: Ids
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Ids:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of ids of each sentence."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class ParallelSequences:
    """Source and target of the same sentence pairs. Ids are complete: language tag and end of sentence included."""

    source: Sequences
    target: Sequences

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(f"{len(self.source)} source sentences, but {len(self.target)} target sentences")

    def __len__(self) -> int:
        return len(self.source)
