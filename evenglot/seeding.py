"""Random generators as a pure function of (seed, purpose, key), so that resuming needs no saved random state."""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, purpose: str, *key: int | str) -> np.random.Generator:
    """The random generator for one purpose, for example generator(seed, "shuffle", 3)."""
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in (seed, purpose, *key)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
