"""Scripts of languages, by the letters of their text: which sentences are mostly in another one?"""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray


@cache
def script_of(character: str) -> str | None:
    """The script of a letter by its Unicode name (LATIN, CYRILLIC, ...); None for anything but letters."""
    if not character.isalpha():
        return None
    script = unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0]
    return "CJK" if script in ("HIRAGANA", "KATAKANA", "CJK") else script


def main_scripts(characters: Mapping[str, int], share: float = 0.2) -> frozenset[str]:
    """The scripts of a language: those of at least this share of the letters in a sample, given by their counts."""
    letters: Counter[str | None] = Counter()
    for character, count in characters.items():
        letters[script_of(character)] += count
    letters.pop(None, None)
    total = letters.total()
    return frozenset(str(script) for script, count in letters.items() if count >= share * total)


def is_foreign(sentence: str, scripts: frozenset[str]) -> bool:
    """Are most distinct letters of this sentence outside these scripts? False if no scripts are known."""
    if not scripts or (sentence.isascii() and "LATIN" in scripts):
        return False
    found = [script for script in map(script_of, set(sentence)) if script is not None]
    return 2 * sum(script in scripts for script in found) < len(found)


def foreign(sentences: list[str], scripts: frozenset[str]) -> NDArray[np.bool_]:
    """Which sentences are foreign (see `is_foreign`)? Only those with any letter of other scripts are looked at."""
    hits = np.zeros(len(sentences), dtype=bool)
    text = "\n".join(sentences)
    if not scripts or (text.isascii() and "LATIN" in scripts):
        return hits
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    places = np.flatnonzero(_strange_letters(scripts)(codes))
    ends = np.cumsum(np.fromiter((len(sentence) + 1 for sentence in sentences), np.int64, len(sentences)))
    for position in np.unique(np.searchsorted(ends, places, side="right")).tolist():
        hits[position] = is_foreign(sentences[position], scripts)
    return hits


@lru_cache(maxsize=32)
def _strange_letters(scripts: frozenset[str]) -> Callable[[NDArray[np.uint32]], NDArray[np.bool_]]:
    """A function that says which characters are letters of other scripts; it looks at each character once."""
    unknown, fine, strange = 0, 1, 2
    kinds = np.full(sys.maxunicode + 1, unknown, dtype=np.uint8)

    def find(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
        found = kinds[codes]
        new = np.unique(codes[found == unknown])
        for code in new.tolist():
            kinds[code] = fine if script_of(chr(code)) in {None, *scripts} else strange
        return np.asarray((kinds[codes] if len(new) else found) == strange)

    return find
