"""Sentence pairs -> token ids: what other processes do with blocks of text, and the limits that ids must keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.frames import Frame
from evenglot.corpus.read import Block
from evenglot.corpus.tokenizers import Tokenizers

Lengths = NDArray[np.int64]
ShortLengths = NDArray[np.int32]  # kept in memory until a part is complete
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class PieceLimits:
    """How many pieces the sides of a pair may have; by default any number."""

    shortest: int = 0
    longest: float = float("inf")
    ratio: float = float("inf")

    def broken_by(self, source: Lengths, target: Lengths) -> dict[str, Mask]:
        """The pairs to leave out, by their first reason, where the sides have so many pieces."""
        longer, shorter = np.maximum(source, target), np.minimum(source, target)
        few = shorter < self.shortest
        many = (longer > self.longest) & ~few
        with np.errstate(invalid="ignore"):  # inf * 0
            uneven = (longer > self.ratio * shorter) & ~few & ~many
        return {"too_few_pieces": few, "too_many_pieces": many, "piece_ratio": uneven}


@dataclass(frozen=True, eq=False)
class Request:
    """A block to be encoded: which of its pairs, the limits to keep, the special tokens, and is text wanted too?"""

    block: Block
    chosen: Mask | None  # None: all
    limits: PieceLimits
    frames: tuple[Frame, Frame]
    keep_text: bool
    advice: str | None  # for an error about text that is not UTF-8; None: it is left out


@dataclass(frozen=True, eq=False)
class Encoded:
    """The ids of the pairs of a block: `lengths` of the sentences of each side, and all ids and text as bytes."""

    lengths: tuple[ShortLengths, ShortLengths]
    ids: tuple[bytes, bytes]
    text: tuple[bytes, bytes] | None
    removed: dict[str, int]


@dataclass(frozen=True)
class Encoder:
    """Encodes blocks with the vocabularies of both sides."""

    tokenizers: Tokenizers
    dtypes: tuple[str, str]

    def __call__(self, request: Request) -> Encoded:
        """The ids of the chosen pairs that keep the limits."""
        sources, targets, invalid = request.block.sentences()
        if invalid and request.advice is not None:
            raise request.block.invalid(invalid[0], request.advice)
        chosen = np.ones(len(sources), dtype=bool) if request.chosen is None else request.chosen.copy()
        chosen[invalid] = False
        if not chosen.all():
            sources, targets = (list(compress(side, chosen.tolist())) for side in (sources, targets))
        ids = [self.tokenizers.encode(sources, "source"), self.tokenizers.encode(targets, "target")]
        lengths = [np.fromiter(map(len, side), np.int64, len(side)) for side in ids]
        broken = request.limits.broken_by(*lengths)
        fits = ~np.logical_or.reduce(list(broken.values()))
        if not fits.all():
            sources, targets = (list(compress(side, fits.tolist())) for side in (sources, targets))
            ids = [list(compress(side, fits.tolist())) for side in ids]
            lengths = [each[fits] for each in lengths]
        source, target = request.frames
        return Encoded(
            ((lengths[0] + len(source)).astype(np.int32), (lengths[1] + len(target)).astype(np.int32)),
            (
                framed(ids[0], lengths[0], self.dtypes[0], source).tobytes(),
                framed(ids[1], lengths[1], self.dtypes[1], target).tobytes(),
            ),
            (_joined(sources), _joined(targets)) if request.keep_text else None,
            {reason: int(np.count_nonzero(hit)) for reason, hit in broken.items() if hit.any()},
        )


def framed(sentences: Sequence[Sequence[int]], lengths: Lengths, dtype: str, frame: Frame) -> NDArray[Any]:
    """All ids in a row: each sentence with its frame."""
    stops = np.cumsum(lengths + len(frame))
    starts = stops - lengths - len(frame)
    framed = np.empty(stops[-1] if len(stops) else 0, dtype=dtype)
    inside = np.ones(len(framed), dtype=bool)
    for place, symbol in enumerate(frame.before):
        framed[starts + place], inside[starts + place] = symbol, False
    for place, symbol in enumerate(reversed(frame.after), start=1):
        framed[stops - place], inside[stops - place] = symbol, False
    framed[inside] = np.fromiter(chain.from_iterable(sentences), dtype, int(lengths.sum()))
    return framed


def _joined(sentences: Sequence[str]) -> bytes:
    return "".join(f"{sentence}\n" for sentence in sentences).encode()
