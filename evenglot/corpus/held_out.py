"""The index of validation and test sets, by which their sentences are found in training data (leakage)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from evenglot.corpus.sentence_keys import HeldOutKeys, Hits, among, long_keys, normalized, short_keys
from evenglot.files import digest

HeldOutKeysByLanguage = dict[str, HeldOutKeys]


class HeldOut:
    """The sentences of all validation and test sets, by language, which must not be in the training data."""

    def __init__(self) -> None:
        self._added: dict[str, list[HeldOutKeys]] = {}

    def add(self, language: str, keys: HeldOutKeys) -> None:
        """Add sentences by their keys (see `keys_of`)."""
        self._added.setdefault(language, []).append(keys)

    def contains(self, language: str, sentences: list[str]) -> Hits:
        """Which of these sentences are held out?"""
        checks, keys = self._keys.get(language, (np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint64)))
        if not len(keys):
            return np.zeros(len(sentences), dtype=bool)
        plain = normalized(sentences)
        hits = among(short_keys(plain), checks)  # cheap, and few sentences pass
        places = np.flatnonzero(hits)
        hits[places] = among(long_keys(plain[place] for place in places.tolist()), keys)
        return hits

    @cached_property
    def _keys(self) -> HeldOutKeysByLanguage:
        """All keys, sorted; nothing may be added afterwards."""
        return {
            language: (
                np.unique(np.concatenate([c for c, _ in added])),
                np.unique(np.concatenate([k for _, k in added])),
            )
            for language, added in self._added.items()
        }

    def fingerprint(self, *languages: str) -> str:
        """A hash of the held-out sentences of these languages."""
        return digest("".join(self._digests.get(language, "-") for language in languages).encode())

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {language: digest(keys.tobytes()) for language, (_, keys) in self._keys.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {"_added": {language: [keys] for language, keys in self._keys.items()}}
