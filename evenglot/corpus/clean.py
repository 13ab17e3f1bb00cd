"""Cleaning rules for sentence pairs, used by `evenglot check` (counts) and `evenglot prepare` (filters).

Every rule is applied to every pair and sets a flag. The configuration decides which flags remove a pair, so `check` and
`prepare` report the same counts, and no pair disappears silently.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.read import Pair

# A pair that breaks several rules counts for the first of them.
REASONS = {
    "invalid_utf8": "a side is not UTF-8",
    "empty": "a side is empty",
    "identical": "source and target are the same text",
    "too_long": "a side has too many words",
    "ratio": "unusual length ratio of the sides",
    "wrong_script": "most letters are not in the language's script",
    "duplicate": "the pair occurred earlier in the corpus",
    "leakage": "a side is also in a validation or test set",
}
FLAG = {reason: np.uint16(1 << position) for position, reason in enumerate(REASONS)}

Flags = NDArray[np.uint16]


@dataclass(frozen=True)
class Limits:
    """Thresholds of the rules: what is flagged, not what is removed."""

    max_words: int = 250
    max_ratio: float = 3.0  # of lengths in characters, relative to the median ratio of the corpus


@dataclass(frozen=True)
class Scan:
    """The result of scanning a corpus: flags of each pair, and the number of characters per side."""

    flags: Flags
    characters: tuple[int, int]

    def __len__(self) -> int:
        return len(self.flags)

    def count(self, reason: str) -> int:
        """The number of pairs that break this rule."""
        return int(np.count_nonzero(self.flags & FLAG[reason]))

    def kept(self, rules: Iterable[str]) -> NDArray[np.bool_]:
        """The pairs that break none of these rules."""
        return np.asarray((self.flags & _mask(rules)) == 0)

    def removed(self, rules: Iterable[str]) -> dict[str, int]:
        """The number of pairs each rule removes; a pair that breaks several counts for the first."""
        wanted, left = set(rules), self.flags
        counts = {}
        for reason in REASONS:
            if reason in wanted:
                hit = (left & FLAG[reason]) != 0
                counts[reason] = int(np.count_nonzero(hit))
                left = left[~hit]
        return counts


def _mask(rules: Iterable[str]) -> np.uint16:
    return np.uint16(sum(int(FLAG[rule]) for rule in set(rules)))


def scan(
    pairs: Iterable[Pair | None],
    languages: tuple[str, str],
    held_out: HeldOut,
    scripts: Mapping[str, frozenset[str]],
    limits: Limits,
) -> Scan:
    """Scan a corpus once, using a few bytes of memory per pair."""
    flags, keys, ratios = array("H"), array("Q"), array("f")  # 14 bytes per pair; lists would take 80
    characters = [0, 0]
    source_script, target_script = (scripts.get(language, frozenset()) for language in languages)
    held_source, held_target = (held_out.sentences(language) for language in languages)
    bit = {reason: int(flag) for reason, flag in FLAG.items()}
    for pair in pairs:
        if pair is None:
            flags.append(bit["invalid_utf8"])
            keys.append(len(keys))
            ratios.append(0.0)
            continue
        source, target = pair
        source_words, target_words = source.count(" ") + 1, target.count(" ") + 1
        characters[0] += len(source)
        characters[1] += len(target)
        found = 0
        if not source or not target:
            found |= bit["empty"]
        elif source == target:
            found |= bit["identical"]
        if source_words > limits.max_words or target_words > limits.max_words:
            found |= bit["too_long"]
        if is_foreign(source, source_script) or is_foreign(target, target_script):
            found |= bit["wrong_script"]
        if sentence_key(source) in held_source or sentence_key(target) in held_target:
            found |= bit["leakage"]
        flags.append(found)
        keys.append(_hash(f"{source}\n{target}"))
        ratios.append((len(source) + 8) / (len(target) + 8))  # + 8: short sentences differ more
    result = np.array(flags)
    result[repeated(np.array(keys))] |= FLAG["duplicate"]
    result[unusual(np.array(ratios), limits.max_ratio)] |= FLAG["ratio"]
    return Scan(result, (characters[0], characters[1]))


def repeated(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which values occurred earlier in the array?"""
    _, first = np.unique(keys, return_index=True)
    again = np.ones(len(keys), dtype=bool)
    again[first] = False
    return again


def unusual(ratios: NDArray[np.float32], limit: float) -> NDArray[np.bool_]:
    """Which length ratios differ from the median by more than the factor `limit`?"""
    known = ratios > 0
    if not known.any():
        return known
    typical = np.median(ratios[known])
    return known & ((ratios > typical * limit) | (ratios < typical / limit))


# ---------------------------------------------------------------------------------------------------- leakage


class HeldOut:
    """The sentences of all validation and test sets, by language, which must not be in the training data."""

    def __init__(self) -> None:
        self._keys: dict[str, set[int]] = {}

    def add(self, language: str, sentence: str) -> None:
        """Add a sentence; empty ones are ignored."""
        if sentence:
            self._keys.setdefault(language, set()).add(sentence_key(sentence))

    def sentences(self, language: str) -> set[int]:
        """Keys (see `sentence_key`) of the held-out sentences of a language."""
        return self._keys.get(language, set())

    def fingerprint(self) -> str:
        """A hash of all held-out sentences."""
        content = "".join(f"{language}{sorted(keys)}" for language, keys in sorted(self._keys.items()))
        return blake2b(content.encode(), digest_size=16).hexdigest()


def sentence_key(sentence: str) -> int:
    """A 64-bit key that ignores case, white space and Unicode normalisation."""
    if not sentence.isascii():
        sentence = unicodedata.normalize("NFKC", sentence)  # as SentencePiece does
    return _hash(" ".join(sentence.casefold().split()))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


# ---------------------------------------------------------------------------------------------------- scripts


@cache
def script_of(character: str) -> str | None:
    """The script of a letter by its Unicode name (LATIN, CYRILLIC, ...); None for anything but letters."""
    if not character.isalpha():
        return None
    script = unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0]
    return "CJK" if script in ("HIRAGANA", "KATAKANA", "CJK") else script


def main_scripts(sentences: Iterable[str], share: float = 0.2) -> frozenset[str]:
    """The scripts of a language: those of at least this share of the letters in a sample."""
    letters = Counter(script_of(character) for sentence in sentences for character in sentence)
    letters.pop(None, None)
    total = letters.total()
    return frozenset(str(script) for script, count in letters.items() if count >= share * total)


def is_foreign(sentence: str, scripts: frozenset[str]) -> bool:
    """Are most distinct letters of this sentence outside these scripts? False if no scripts are known."""
    if not scripts or (sentence.isascii() and "LATIN" in scripts):
        return False
    found = [script for script in map(script_of, set(sentence)) if script is not None]
    return 2 * sum(script in scripts for script in found) < len(found)
