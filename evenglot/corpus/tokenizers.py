"""Text <-> token ids of both sides, with the special tokens around a sentence: what models and batches are fed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from evenglot.config.data import DataSettings
from evenglot.corpus.frames import Frame
from evenglot.corpus.pretrained import PretrainedTokenizers
from evenglot.corpus.vocabulary import piece_characters
from evenglot.directions import SIDES, Direction, Side, tag, tag_kind
from evenglot.symbols import EOS, OURS, UNK, Symbols


class Tokenizers(Protocol):
    """The vocabularies of the source and the target side."""

    @property
    def symbols(self) -> Symbols:
        """The ids of </s> and padding."""

    @property
    def names_target(self) -> bool:
        """Whether the model is told the target language, and so could be asked for any that it knows."""

    def encode(self, texts: Sequence[str], side: Side) -> list[list[int]]:
        """The ids of sentences, without special tokens."""

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of translations."""

    def frames(self, direction: Direction) -> tuple[Frame, Frame]:
        """The special tokens around source and target sentences; ValueError for a language that it does not know."""

    def begin(self, direction: Direction) -> tuple[int, ...]:
        """The first inputs of the decoder, before a translation."""

    def characters(self) -> NDArray[np.int64]:
        """The number of characters of each target subword: one for <unk>, none for special tokens."""


@dataclass(frozen=True)
class SentencePieceTokenizers:
    """Our own vocabularies: SentencePiece models, with a language tag before the source."""

    models: tuple[bytes, bytes]
    tag_side: Side

    def __reduce__(self) -> tuple[Any, ...]:
        return SentencePieceTokenizers, (self.models, self.tag_side)  # for other processes: without what is loaded

    @property
    def symbols(self) -> Symbols:
        """The ids of </s> and padding."""
        return OURS

    @property
    def names_target(self) -> bool:
        """Whether the tag is of the target language."""
        return self.tag_side == "target"

    def encode(self, texts: Sequence[str], side: Side) -> list[list[int]]:
        """The ids of sentences, without tag and </s>."""
        found: list[list[int]] = self._processors[SIDES.index(side)].encode(list(texts), num_threads=1)
        return found

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of translations."""
        found: list[str] = self._processors[1].decode(list(ids))
        return found

    def frames(self, direction: Direction) -> tuple[Frame, Frame]:
        """Tags of the language, and perhaps of the corpus, before the source; </s> after both."""
        names, source = [tag(direction, self.tag_side), direction.corpus_tag], self._processors[0]
        tags = {name: source.piece_to_id(name) for name in names if name is not None}
        for name, found in tags.items():
            if found == UNK:
                every = (source.id_to_piece(number) for number in range(len(source)) if source.is_control(number))
                known = [name.strip("<>") for name in every if name.startswith(">>")]
                raise ValueError(f"{direction.name}: no {name} in the vocabulary; available: {', '.join(known)}")
        return Frame(tuple(tags.values()), (EOS,)), Frame((), (EOS,))

    def begin(self, direction: Direction) -> tuple[int, ...]:
        """</s>."""
        return (EOS,)

    def characters(self) -> NDArray[np.int64]:
        """The number of characters of each target subword."""
        return piece_characters(self._processors[1])

    @cached_property
    def _processors(self) -> list[Any]:
        return [sentencepiece.SentencePieceProcessor(model_proto=model) for model in self.models]


def open_tokenizers(folder: Path, data: DataSettings) -> Tokenizers:
    """The vocabularies in a folder of a store or a run: our own, or the tokenizer of a pretrained model."""
    files = [folder / f"{side}.model" for side in SIDES]
    if not files[0].exists():
        return PretrainedTokenizers(folder, tuple(sorted(data.codes.items())))
    source, target = (file.read_bytes() for file in files)
    return SentencePieceTokenizers((source, target), tag_kind(data.directions))
