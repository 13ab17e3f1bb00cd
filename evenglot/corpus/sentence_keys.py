"""Keys of sentences, by which repeated and held-out ones are found in large corpora."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

MEMBERS_AT_ONCE = 1 << 20  # searched for repeated pairs: bounds memory
Hits = NDArray[np.bool_]
Keys = NDArray[np.uint64]
HeldOutKeys = tuple[NDArray[np.uint32], Keys]


def keys_of(sentences: list[str]) -> HeldOutKeys:
    """A 32-bit and a 64-bit key of each sentence that ignore case, white space and Unicode normalisation.

    Empty sentences have none.
    """
    plain = [sentence for sentence in normalized(sentences) if sentence]
    return short_keys(plain), long_keys(plain)


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


def short_keys(sentences: Iterable[str]) -> NDArray[np.uint32]:
    """Keys that are quick to compute; different sentences may share one."""
    return np.fromiter((crc32(sentence.encode("utf-8", "surrogatepass")) for sentence in sentences), np.uint32)


def long_keys(texts: Iterable[str]) -> Keys:
    """Keys that different texts practically never share."""
    digests = (blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


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
