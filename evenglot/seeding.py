"""Random numbers as a pure function of (seed, purpose, key): nothing needs to be saved, and a resume is a seek."""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, purpose: str, *key: int | str) -> np.random.Generator:
    """Random numbers for one purpose, such as generator(seed, "shuffle", 3): nothing to save, a resume is a seek."""
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in (seed, purpose, *key)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
