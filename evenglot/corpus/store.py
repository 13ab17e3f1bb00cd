"""The store: token ids of every direction and split, memory-mapped, with the vocabularies and a manifest.

store/manifest.json                      what belongs together, written last
store/vocabulary.KEY/source.model, target.model
store/train/por-en.KEY/source.ids, source.offsets, target.ids, target.offsets
store/valid/..., store/valid_full/..., store/test/...     with the raw text beside the ids
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import DamagedError
from evenglot.corpus.sequences import Ids, ParallelSequences, Sequences
from evenglot.corpus.vocabulary import Coverage

MANIFEST = "manifest.json"
VERSION = 1
SIDES = ("source", "target")


class SequenceWriter:
    """Appends sentences of ids to two files, in memory that does not grow with them (but for 8 bytes a sentence)."""

    def __init__(self, folder: Path, side: str, dtype: type[np.unsignedinteger[Any]]) -> None:
        self._ids = (folder / f"{side}.ids").open("wb")
        self._offsets_path = folder / f"{side}.offsets"
        self._dtype = dtype
        self._lengths: list[np.ndarray] = []

    def append(self, sentences: list[list[int]]) -> None:
        """Write these sentences."""
        self._lengths.append(np.array([len(sentence) for sentence in sentences], dtype=np.int64))
        np.array([piece for sentence in sentences for piece in sentence], dtype=self._dtype).tofile(self._ids)

    def close(self) -> int:
        """Write the offsets; how many ids in all?"""
        self._ids.close()
        lengths = np.concatenate([np.zeros(1, dtype=np.int64), *self._lengths])
        np.cumsum(lengths).tofile(self._offsets_path)
        return int(lengths.sum())


def read_sequences(folder: Path, side: str, dtype: str) -> Sequences:
    """The ids of one side, memory-mapped."""
    offsets = np.fromfile(folder / f"{side}.offsets", dtype=np.int64)
    file = folder / f"{side}.ids"
    ids: Ids = np.memmap(file, dtype=dtype, mode="r") if offsets[-1] else np.empty(0, dtype=dtype)
    return Sequences(ids, offsets)


@dataclass(frozen=True, eq=False)
class Store:
    """A finished store. Open it with `open_store`."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def directions(self) -> tuple[str, ...]:
        """Names of all directions."""
        return tuple(self.manifest["directions"])

    @property
    def sizes(self) -> dict[str, int]:
        """Training pairs of each direction."""
        return {name: row["train"]["pairs"] for name, row in self.manifest["directions"].items()}

    @property
    def target_tokens(self) -> dict[str, int]:
        """Training tokens on the target side of each direction."""
        return {name: row["train"]["target_tokens"] for name, row in self.manifest["directions"].items()}

    @property
    def warnings(self) -> list[str]:
        """Languages that the vocabulary serves badly."""
        starved = [name for name, row in self.manifest["vocabulary"]["coverage"].items() if Coverage(**row).starved]
        return [
            f"{name}: the vocabulary lacks characters or words of it; raise character_coverage or the size"
            for name in starved
        ]

    def splits(self, direction: str) -> tuple[str, ...]:
        """Which splits does a direction have?"""
        return tuple(self.manifest["directions"][direction])

    def corpus(self, direction: str, split: str) -> ParallelSequences:
        """Token ids of a direction and split."""
        folder = self._artefact(direction, split)
        source, target = (read_sequences(folder, side, self.manifest["vocabulary"]["dtype"][side]) for side in SIDES)
        return ParallelSequences(source, target)

    def text(self, direction: str, split: str, side: str) -> list[str]:
        """The raw sentences of one side of a validation or test set, as they were before segmentation."""
        file = self._artefact(direction, split) / f"{side}.txt"
        return file.read_bytes().decode("utf-8").split("\n")[:-1]

    def vocabulary(self, side: str) -> sentencepiece.SentencePieceProcessor:
        """The SentencePiece model of the source or the target side."""
        file = self.folder / self.manifest["vocabulary"]["artefact"] / f"{side}.model"
        return sentencepiece.SentencePieceProcessor(model_file=str(file))

    def _artefact(self, direction: str, split: str) -> Path:
        return self.folder / str(self.manifest["directions"][direction][split]["artefact"])


def open_store(folder: Path, verify: bool = True) -> Store:
    """Open a store for reading; what is missing, damaged or half-written is said, not used."""
    path = Path(folder) / MANIFEST
    if not path.exists():
        raise DamagedError(f"{folder}: not a finished store (no {MANIFEST}); run `evenglot prepare`")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["version"] != VERSION:
            raise DamagedError(f"{path}: written by another version; run `evenglot prepare` again")
        rows = [split for row in manifest["directions"].values() for split in row.values()]
        folders = [path.parent / manifest["vocabulary"]["artefact"], *(path.parent / row["artefact"] for row in rows)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(f"{path}: damaged; run `evenglot prepare` again") from error
    for artefact in folders:
        if verify:
            artefacts.verify(artefact)
        elif not artefact.exists():
            raise DamagedError(f"{artefact}: missing; run `evenglot prepare` again")
    return Store(path.parent, manifest)
