"""Cleaning rules for sentence pairs, used by `evenglot check` (counts) and `evenglot prepare` (filters).

Every rule is applied to every pair and sets a flag. The configuration decides which flags remove a pair, so `check` and
`prepare` report the same counts, and no pair disappears silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.drift import shifted_part
from evenglot.corpus.held_out import HeldOut
from evenglot.corpus.read import Block
from evenglot.corpus.scripts import foreign
from evenglot.corpus.sentence_keys import Hits, Keys, long_keys, repeated

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
        keys = long_keys(map("\n".join, zip(sources, targets, strict=True)))
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


def unusual(ratios: NDArray[np.float32], limit: float) -> NDArray[np.bool_]:
    """Which length ratios differ from the median by more than the factor `limit`?"""
    known = ratios > 0
    if not known.any():
        return known
    typical = np.median(ratios[known])
    return known & ((ratios > typical * limit) | (ratios < typical / limit))
