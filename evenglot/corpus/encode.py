"""Sentence pairs -> token ids: what other processes do with blocks of text, and the limits that ids must keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from evenglot.corpus.read import Block
from evenglot.symbols import EOS

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
    """A block to be encoded: which of its pairs, the limits to keep, the tag, and whether the text is wanted too."""

    block: Block
    chosen: Mask | None  # None: all
    limits: PieceLimits
    tag: str
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

    models: tuple[bytes, bytes]
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
        source_model, target_model = self._processors
        ids = [source_model.encode(sources, num_threads=1), target_model.encode(targets, num_threads=1)]
        lengths = [np.fromiter(map(len, side), np.int64, len(side)) for side in ids]
        broken = request.limits.broken_by(*lengths)
        fits = ~np.logical_or.reduce(list(broken.values()))
        if not fits.all():
            sources, targets, *ids = (list(compress(side, fits.tolist())) for side in (sources, targets, *ids))
            lengths = [each[fits] for each in lengths]
        tag = source_model.piece_to_id(request.tag)
        return Encoded(
            ((lengths[0] + 2).astype(np.int32), (lengths[1] + 1).astype(np.int32)),
            (
                framed(ids[0], lengths[0], self.dtypes[0], tag).tobytes(),
                framed(ids[1], lengths[1], self.dtypes[1]).tobytes(),
            ),
            (_joined(sources), _joined(targets)) if request.keep_text else None,
            {reason: int(np.count_nonzero(hit)) for reason, hit in broken.items() if hit.any()},
        )

    @cached_property
    def _processors(self) -> list[Any]:
        return [sentencepiece.SentencePieceProcessor(model_proto=model) for model in self.models]


def framed(sentences: Sequence[Sequence[int]], lengths: Lengths, dtype: str, tag: int | None = None) -> NDArray[Any]:
    """All ids in a row: each sentence with a tag before it, unless there is none, and </s> after it."""
    before = tag is not None
    stops = np.cumsum(lengths + 1 + before)
    framed = np.empty(stops[-1] if len(stops) else 0, dtype=dtype)
    inside = np.ones(len(framed), dtype=bool)
    framed[stops - 1], inside[stops - 1] = EOS, False
    if before:
        starts = stops - lengths - 2
        framed[starts], inside[starts] = tag, False
    framed[inside] = np.fromiter(chain.from_iterable(sentences), dtype, int(lengths.sum()))
    return framed


def _joined(sentences: Sequence[str]) -> bytes:
    return "".join(f"{sentence}\n" for sentence in sentences).encode()
