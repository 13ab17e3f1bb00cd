"""Cleaning rules for sentence pairs, used by `evenglot check` (counts) and `evenglot prepare` (filters).

Every rule is applied to every pair and sets a flag. The configuration decides which flags remove a pair, so `check` and
`prepare` report the same counts, and no pair disappears silently.
"""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from operator import eq
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.drift import shifted_part
from evenglot.corpus.read import Block, Pair
from evenglot.files import digest

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


MEMBERS_AT_ONCE = 1 << 20  # searched for repeated pairs: bounds memory

Flags = NDArray[np.uint16]
Hits = NDArray[np.bool_]
Keys = NDArray[np.uint64]
HeldOutKeys = tuple[NDArray[np.uint32], Keys]
HeldOutKeysByLanguage = dict[str, HeldOutKeys]


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
    shifted: tuple[int, int] | None = None  # the pairs, from and to, in which the sides are probably shifted

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


@dataclass(frozen=True, eq=False)
class Judged:
    """Some pairs of a corpus: flags of the rules that look at one pair, and what the others need."""

    flags: Flags
    keys: Keys  # equal for equal pairs
    ratios: NDArray[np.float32]  # of lengths; 0 for what is not UTF-8
    characters: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Judge:
    """Applies the rules to blocks of text, each alone, so that many processes can do it."""

    held_out: HeldOut
    scripts: Mapping[str, frozenset[str]]
    limits: Limits
    advice: str | None = None  # for an error about text that is not UTF-8; None: it gets a flag

    def __call__(self, task: tuple[Block, tuple[str, str]]) -> Judged:
        """The flags of the pairs of a block, which is in these languages."""
        block, languages = task
        sources, targets, invalid = block.sentences()
        if invalid and self.advice is not None:
            raise block.invalid(invalid[0], self.advice)
        return self.judge(sources, targets, languages, invalid, block.first)

    def judge(
        self,
        sources: list[str],
        targets: list[str],
        languages: tuple[str, str],
        invalid: Sequence[int] = (),
        first: int = 0,
    ) -> Judged:
        """The flags of these pairs; those at the positions `invalid` are not UTF-8, `first` are before them."""
        sides = (sources, targets)
        lengths = [np.fromiter(map(len, side), np.int64, len(side)) for side in sides]
        found = {
            "empty": (lengths[0] == 0) | (lengths[1] == 0),
            "too_long": _any_side(_wordy(*side, self.limits.max_words) for side in zip(sides, lengths, strict=True)),
            "wrong_script": _any_side(
                foreign(side, self.scripts.get(language, frozenset()))
                for side, language in zip(sides, languages, strict=True)
            ),
            "leakage": _any_side(
                self.held_out.contains(language, side) for side, language in zip(sides, languages, strict=True)
            ),
        }
        same = np.fromiter(map(eq, sources, targets), np.bool_, len(sources))
        found["identical"] = same & ~found["empty"]
        flags = np.zeros(len(sources), dtype=np.uint16)
        for reason, hit in found.items():
            flags[hit] |= FLAG[reason]
        keys = _hashes(map("\n".join, zip(sources, targets, strict=True)))
        ratios = ((lengths[0] + 8) / (lengths[1] + 8)).astype(np.float32)  # + 8: short sentences differ more
        for position in invalid:
            flags[position], keys[position], ratios[position] = FLAG["invalid_utf8"], first + position, 0
        return Judged(flags, keys, ratios, (int(lengths[0].sum()), int(lengths[1].sum())))


def combine(judged: Iterable[Judged], max_ratio: float) -> Scan:
    """The scan of a corpus from all its blocks, using a few bytes of memory per pair."""
    flag_parts, key_parts, ratio_parts = [], [], []
    source = target = 0
    for block in judged:
        flag_parts.append(block.flags)
        key_parts.append(block.keys)
        ratio_parts.append(block.ratios)
        source, target = source + block.characters[0], target + block.characters[1]
    duplicate = repeated(_joined(key_parts))
    ratios = _joined(ratio_parts)
    strange = unusual(ratios, max_ratio)
    flags = _joined(flag_parts)
    flags[duplicate] |= FLAG["duplicate"]
    flags[strange] |= FLAG["ratio"]
    return Scan(flags, (source, target), shifted_part(ratios))


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """All parts in one array; the list is emptied, or they would be in memory twice from here on."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _any_side(hits: Iterable[Hits]) -> Hits:
    source, target = hits
    return source | target


def _wordy(sentences: list[str], lengths: NDArray[np.int64], most: int) -> Hits:
    """Which sentences have more words than that? Only those with more characters need to be looked at."""
    hits = lengths > most
    for position in np.flatnonzero(hits).tolist():
        hits[position] = sentences[position].count(" ") + 1 > most
    return hits


def repeated(keys: Keys) -> Hits:
    """Which values occurred earlier in the array?"""
    ordered = np.sort(keys)
    several = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    again = np.zeros(len(keys), dtype=bool)
    if len(several):  # mostly few, so that they can be found with less memory than by sorting positions
        for start in range(0, len(keys), MEMBERS_AT_ONCE):
            part = slice(start, start + MEMBERS_AT_ONCE)
            again[part] = among(keys[part], several)
        (places,) = np.nonzero(again)
        _, first = np.unique(keys[places], return_index=True)
        again[places[first]] = False
    return again


def among(values: NDArray[Any], ordered: NDArray[Any]) -> Hits:
    """Which values are in a sorted array?"""
    if not len(ordered):
        return np.zeros(len(values), dtype=bool)
    places = np.searchsorted(ordered, values)
    return np.asarray(ordered[np.minimum(places, len(ordered) - 1)] == values)


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
        hits = among(_checks(plain), checks)  # cheap, and few sentences pass
        places = np.flatnonzero(hits)
        hits[places] = among(_hashes(plain[place] for place in places.tolist()), keys)
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


@dataclass(frozen=True, eq=False)
class Excerpt:
    """What judging other text needs to know of a block of text; both sides."""

    usable: Hits  # pairs that are readable and not empty
    keys: tuple[HeldOutKeys, HeldOutKeys] | None  # of a validation or test set
    characters: tuple[dict[str, int], dict[str, int]] | None  # of training text, for its scripts
    pairs: tuple[Pair, ...] = ()  # that are usable; of held-out text, the first of them


HELD_OUT_SAMPLE = 100  # pairs of a block of held-out text that an excerpt holds


def excerpt(task: tuple[Block, bool, str | None]) -> Excerpt:
    """Look at a block, of held-out text or not; with advice, text that is not UTF-8 is an error."""
    block, is_held_out, advice = task
    sources, targets, invalid = block.sentences()
    if invalid and advice is not None:
        raise block.invalid(invalid[0], advice)
    usable = np.fromiter((bool(pair[0] and pair[1]) for pair in zip(sources, targets, strict=True)), np.bool_)
    places = np.flatnonzero(usable).tolist()
    if is_held_out:
        first = tuple((sources[place], targets[place]) for place in places[:HELD_OUT_SAMPLE])
        return Excerpt(usable, (keys_of(sources), keys_of(targets)), None, first)
    pairs = tuple((sources[place], targets[place]) for place in places)
    return Excerpt(usable, None, (dict(Counter("".join(sources))), dict(Counter("".join(targets)))), pairs)


def keys_of(sentences: list[str]) -> HeldOutKeys:
    """A 32-bit and a 64-bit key of each sentence that ignore case, white space and Unicode normalisation.

    Empty sentences have none.
    """
    plain = [sentence for sentence in normalized(sentences) if sentence]
    return _checks(plain), _hashes(plain)


def normalized(sentences: list[str]) -> list[str]:
    """The sentences without differences in case, white space and Unicode normalisation; all at once, for speed."""
    text = "\n".join(sentences)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # as SentencePiece does; nothing combines with "\n"
    lines = text.casefold().split("\n") if sentences else []
    if any(mark in text for mark in UNTIDY) or text[:1] == " " or text[-1:] == " ":
        return [" ".join(line.split()) for line in lines]
    return lines


UNTIDY = ["  ", " \n", "\n ", *(chr(code) for code in range(0x3001) if chr(code).isspace() and chr(code) not in " \n")]


def _checks(sentences: Iterable[str]) -> NDArray[np.uint32]:
    return np.fromiter((crc32(sentence.encode("utf-8", "surrogatepass")) for sentence in sentences), np.uint32)


def _hashes(texts: Iterable[str]) -> Keys:
    digests = (blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


# ---------------------------------------------------------------------------------------------------- scripts


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


def foreign(sentences: list[str], scripts: frozenset[str]) -> Hits:
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
def _strange_letters(scripts: frozenset[str]) -> Callable[[NDArray[np.uint32]], Hits]:
    """A function that says which characters are letters of other scripts; it looks at each character once."""
    unknown, fine, strange = 0, 1, 2
    kinds = np.full(sys.maxunicode + 1, unknown, dtype=np.uint8)

    def find(codes: NDArray[np.uint32]) -> Hits:
        found = kinds[codes]
        new = np.unique(codes[found == unknown])
        for code in new.tolist():
            kinds[code] = fine if script_of(chr(code)) in {None, *scripts} else strange
        return np.asarray((kinds[codes] if len(new) else found) == strange)

    return find
