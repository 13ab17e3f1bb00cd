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

from evenglot import yaml12
from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import DamagedError, key_of
from evenglot.corpus.vocabulary import Coverage
from evenglot.directions import SIDES
from evenglot.files import write_json
from evenglot.sequences import Ids, ParallelSequences, Sequences

MANIFEST, CONFIG = "manifest.json", "config.yaml"


class SequenceWriter:
    """Appends sentences of ids to two files; in memory it keeps their lengths only."""

    def __init__(self, folder: Path, side: str, dtype: type[np.unsignedinteger[Any]]) -> None:
        self._ids = (folder / f"{side}.ids").open("wb")
        self._offsets_path = folder / f"{side}.offsets"
        self._dtype = dtype
        self._lengths = [np.zeros(1, dtype=np.int64)]

    def append(self, sentences: list[list[int]]) -> None:
        """Write these sentences."""
        self._lengths.append(np.array([len(sentence) for sentence in sentences], dtype=np.int64))
        pieces = np.array([piece for sentence in sentences for piece in sentence], dtype=self._dtype)
        self._ids.write(pieces.tobytes())  # not `tofile`, which does not notice when the disk is full

    def close(self) -> int:
        """Write the offsets; how many ids in all?"""
        self._ids.close()
        offsets = np.cumsum(np.concatenate(self._lengths))
        self._offsets_path.write_bytes(offsets.tobytes())
        return int(offsets[-1])


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
    def artefacts(self) -> list[Path]:
        """The folders of everything that belongs to it."""
        return [self.folder / name for name in self.manifest["artefacts"]]

    @property
    def warnings(self) -> list[str]:
        """Languages that the vocabulary serves badly, and vocabularies that are much smaller than was asked for."""
        vocabulary = self.manifest["vocabulary"]
        starved = [language for language, row in vocabulary["coverage"].items() if Coverage(**row).starved]
        small = [side for side in SIDES if vocabulary["pieces"][side] < 0.9 * vocabulary["asked"][side]]
        return [
            *(
                f"{side} vocabulary: {vocabulary['pieces'][side]:,} pieces, as the text offers no more; "
                f"{vocabulary['asked'][side]:,} were asked for"
                for side in small
            ),
            *(
                f"{language}: the vocabulary knows too little of it; more pieces, a larger sample or tau would help"
                for language in starved
            ),
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
        return sentencepiece.SentencePieceProcessor(model_file=str(self.vocabulary_file(side)))

    def vocabulary_file(self, side: str) -> Path:
        """Where that model is."""
        return self.folder / str(self.manifest["vocabulary"]["artefact"]) / f"{side}.model"

    @property
    def fingerprint(self) -> str:
        """Of the content: a store that was made anew from the same text is the same, on another machine too."""
        vocabulary = self.manifest["vocabulary"]
        corpora = {
            direction: {split: artefacts.contents(self._artefact(direction, split)) for split in self.splits(direction)}
            for direction in self.directions
        }
        return key_of(vocabulary["hash"], vocabulary["tags"], corpora)

    def _artefact(self, direction: str, split: str) -> Path:
        return self.folder / str(self.manifest["directions"][direction][split]["artefact"])


def config_key(root: Path) -> str | None:
    """A hash of what config.yaml says of the text and of its preparation; None if there is no such file."""
    try:
        content, _ = yaml12.parse((root / CONFIG).read_text(encoding="utf-8"))
        parts = {name: dict(content[name]) for name in ("data", "clean", "vocabulary", "store")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for key in ("folder", "threads"):  # where it stands, and how many made it, does not matter
        parts["store"].pop(key, None)
    return key_of(parts)


def write_manifest(root: Path, content: dict[str, Any]) -> None:
    """Write the manifest with a checksum of itself: from then on the store is finished."""
    content = {**content, "checksums": {name: artefacts.seal(root / name) for name in content["artefacts"]}}
    write_json(root / MANIFEST, {**content, "checksum": key_of(content)})


def open_store(folder: Path, verify: bool = True) -> Store:
    """Open a store for reading; what is missing, damaged or half-written is said, not used."""
    root = Path(folder)
    if not (root / MANIFEST).exists():
        raise DamagedError(root, f"not a finished store (no {MANIFEST})", "run `evenglot prepare`")
    try:
        content = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
        intact = content.pop("checksum") == key_of(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(root / MANIFEST, "damaged") from error
    if not intact:
        raise DamagedError(root / MANIFEST, "damaged, or of another version")
    store = Store(root, content)
    if "config" in content and content["config"] != config_key(root):  # older stores do not say
        raise DamagedError(root / CONFIG, "not what this store was made with")
    for artefact in store.artefacts:
        if verify:
            artefacts.verify(artefact)
            if artefacts.seal(artefact) != content["checksums"][str(artefact.relative_to(root))]:
                raise DamagedError(artefact, "not what belongs to this store")
        elif not artefact.exists():
            raise DamagedError(artefact, "missing")
    return store
