"""What is wrong with a sentence pair? The rules behind both `evenglot check` (counts) and `evenglot prepare` (filters).

Every rule is tried on every pair and leaves a flag; which flags remove a pair is the configuration's business. So the
counts of `check` are the counts of `prepare`, and nothing disappears silently.
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

# In the order in which a pair that breaks several rules is counted.
REASONS = {
    "invalid_utf8": "a side is not UTF-8",
    "empty": "a side is empty",
    "identical": "source and target are the same text",
    "too_long": "a side has too many words",
    "ratio": "one side is far longer than usual for the other",
    "wrong_script": "most letters are not of the language's script",
    "duplicate": "the pair stood in the corpus before",
    "leakage": "a side also stands in a validation or test set",
}
FLAG = {reason: np.uint16(1 << position) for position, reason in enumerate(REASONS)}

Flags = NDArray[np.uint16]


@dataclass(frozen=True)
class Limits:
    """Numbers behind the rules; what is flagged, not yet what is removed."""

    max_words: int = 250
    max_ratio: float = 3.0  # of lengths in characters, against the typical ratio of the corpus


@dataclass(frozen=True)
class Scan:
    """A corpus looked through once: the flags of each pair, and how much text there is."""

    flags: Flags
    characters: tuple[int, int]

    def __len__(self) -> int:
        return len(self.flags)

    def count(self, reason: str) -> int:
        """Pairs that this rule objects to."""
        return int(np.count_nonzero(self.flags & FLAG[reason]))

    def kept(self, rules: Iterable[str]) -> NDArray[np.bool_]:
        """Which pairs none of these rules removes?"""
        return np.asarray((self.flags & _mask(rules)) == 0)

    def removed(self, rules: Iterable[str]) -> dict[str, int]:
        """How many pairs each of these rules removes; a pair that breaks several counts for the first."""
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
    """Look through a corpus once, in memory of a few bytes a pair."""
    flags, keys, ratios = array("H"), array("Q"), array("f")  # 14 bytes a pair, where lists would take 80
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
    """Which values stood in the array before?"""
    _, first = np.unique(keys, return_index=True)
    again = np.ones(len(keys), dtype=bool)
    again[first] = False
    return again


def unusual(ratios: NDArray[np.float32], limit: float) -> NDArray[np.bool_]:
    """Which length ratios differ from the median by more than the factor `limit`? Languages differ in length."""
    known = ratios > 0
    if not known.any():
        return known
    typical = np.median(ratios[known])
    return known & ((ratios > typical * limit) | (ratios < typical / limit))


# ---------------------------------------------------------------------------------------------------- leakage


class HeldOut:
    """The sentences of all validation and test sets, by language: training must not have seen either side of them."""

    def __init__(self) -> None:
        self._keys: dict[str, set[int]] = {}

    def add(self, language: str, sentence: str) -> None:
        """Hold out a sentence; empty ones are no secret."""
        if sentence:
            self._keys.setdefault(language, set()).add(sentence_key(sentence))

    def sentences(self, language: str) -> set[int]:
        """Keys (see `sentence_key`) of what is held out in a language."""
        return self._keys.get(language, set())

    def fingerprint(self) -> str:
        """Changes whenever any held-out sentence does."""
        content = "".join(f"{language}{sorted(keys)}" for language, keys in sorted(self._keys.items()))
        return blake2b(content.encode(), digest_size=16).hexdigest()


def sentence_key(sentence: str) -> int:
    """64 bits that are the same for sentences that differ only in case, white space and the encoding of characters."""
    if not sentence.isascii():
        sentence = unicodedata.normalize("NFKC", sentence)  # as SentencePiece does
    return _hash(" ".join(sentence.casefold().split()))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


# ---------------------------------------------------------------------------------------------------- scripts


@cache
def script_of(character: str) -> str | None:
    """The script of a letter, as Unicode's name of it says: LATIN, CYRILLIC, ...; None for anything but letters."""
    if not character.isalpha():
        return None
    script = unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0]
    return "CJK" if script in ("HIRAGANA", "KATAKANA", "CJK") else script


def main_scripts(sentences: Iterable[str], share: float = 0.2) -> frozenset[str]:
    """The scripts that a language is written in: those of at least this share of the letters of a sample."""
    letters = Counter(script_of(character) for sentence in sentences for character in sentence)
    letters.pop(None, None)
    total = letters.total()
    return frozenset(str(script) for script, count in letters.items() if count >= share * total)


def is_foreign(sentence: str, scripts: frozenset[str]) -> bool:
    """Are most of the different letters of this sentence in none of these scripts? Never, if none are known."""
    if not scripts or (sentence.isascii() and "LATIN" in scripts):
        return False
    found = [script for script in map(script_of, set(sentence)) if script is not None]
    return 2 * sum(script in scripts for script in found) < len(found)
