"""Token ids of many sentences as two flat arrays: the format of the store, from which batches are read."""

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
        """Number of ids per sentence."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class ParallelSequences:
    """Source and target ids of sentence pairs, including language tags and </s>."""

    source: Sequences
    target: Sequences

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(f"not parallel: {len(self.source)} source and {len(self.target)} target sentences")

    def __len__(self) -> int:
        return len(self.source)
