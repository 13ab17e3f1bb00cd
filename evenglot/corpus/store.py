"""The store: token ids of every direction and split, memory-mapped, with the vocabularies and a manifest.

store/manifest.json                      which artefacts belong to the store, and where each part is; written last
store/vocabulary.KEY/source.model, target.model
store/train.KEY/source.ids, target.ids, offsets            of all directions, one after the other
store/held_out.KEY/...                                     the same of validation and test sets, with the raw text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from evenglot import yaml12
from evenglot.config import Config, ConfigError, load_config
from evenglot.corpus import artefacts
from evenglot.corpus.artefacts import DamagedError, key_of
from evenglot.corpus.bundle import Section
from evenglot.corpus.manifest import refuse_invalid
from evenglot.corpus.tokenizers import Tokenizers, open_tokenizers
from evenglot.corpus.vocabulary import Coverage
from evenglot.directions import SIDES, Side
from evenglot.files import sha256, write_json
from evenglot.reading import LaterFormatError, read_json, read_text, refuse_later
from evenglot.sequences import Ids, ParallelSequences, Sequences
from evenglot.wording import counted

MANIFEST, CONFIG = "manifest.json", "config.yaml"


def read_section(folder: Path, section: Sequence[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A range of bytes of a file, as an array."""
    file, start, size, _ = section
    if start + size > (folder / file).stat().st_size:
        raise DamagedError(folder / file, "shorter than the manifest says")
    return np.fromfile(folder / file, dtype=dtype, count=size // dtype.itemsize, offset=start)


@dataclass(frozen=True, eq=False, repr=False)
class Store:
    """A finished store. Open it with `open_store`."""

    folder: Path
    manifest: Mapping[str, Any]

    def __repr__(self) -> str:
        pairs = sum(self.sizes.values())
        return f"<Store {self.folder}: {counted(len(self.directions), 'direction')}, {counted(pairs, 'training pair')}>"

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
    def tokens(self) -> dict[str, tuple[int, int]]:
        """Training tokens of each direction: source and target."""
        of_train = {name: row["train"] for name, row in self.manifest["directions"].items()}
        return {name: (train["source_tokens"], train["target_tokens"]) for name, train in of_train.items()}

    @property
    def artefacts(self) -> list[Path]:
        """The folders of all its artefacts."""
        return [self.folder / name for name in self.manifest["artefacts"]]

    @property
    def warnings(self) -> list[str]:
        """Poorly covered languages, and vocabularies much smaller than requested."""
        vocabulary = self.manifest["vocabulary"]
        starved = [language for language, row in vocabulary["coverage"].items() if Coverage(**row).starved]
        small = [side for side in SIDES if vocabulary["pieces"][side] < 0.9 * vocabulary["asked"][side]]
        is_given = "given" in vocabulary or vocabulary.get("kind") == "pretrained"
        advice = (
            "it comes with model.init or vocabulary.from, so only a model with a vocabulary of its own would do better"
            if is_given
            else "use more subwords, a larger sample or a larger tau"
        )
        return [
            *(
                f"{side} vocabulary: {vocabulary['pieces'][side]:,} subwords instead of the requested "
                f"{vocabulary['asked'][side]:,}: the text yields no more"
                for side in small
            ),
            *(f"{language}: poorly covered by the vocabulary; {advice}" for language in starved),
        ]

    @cached_property
    def made_with(self) -> Config:
        """The configuration with which it was prepared, read once; DamagedError if it is none."""
        try:
            return load_config(self.folder / CONFIG, check_files=False, hints=False)
        except ConfigError as error:
            raise DamagedError(self.folder / CONFIG, "not a valid configuration") from error

    def verify(self) -> None:
        """Read all files and compare their checksums; DamagedError if anything is missing or has changed."""
        for artefact in self.artefacts:
            artefacts.verify(artefact)
            if artefacts.seal(artefact) != self.manifest["checksums"][str(artefact.relative_to(self.folder))]:
                raise DamagedError(artefact, "does not belong to this store")

    def splits(self, direction: str) -> tuple[str, ...]:
        """The splits of a direction."""
        return tuple(self.manifest["directions"][direction])

    def corpus(self, direction: str, split: str) -> ParallelSequences:
        """Token ids of a direction and split, memory-mapped."""
        source, target = (self._sequences(direction, split, side) for side in SIDES)
        return ParallelSequences(source, target)

    def _sequences(self, direction: str, split: str, side: Side) -> Sequences:
        dtype = np.dtype(self.manifest["vocabulary"]["dtype"][side])
        folder, sections = self._artefact(direction, split), self._sections(direction, split)
        offsets = read_section(folder, _section(folder, sections, f"{side}.offsets"), np.dtype(np.int64))
        file, start, size, _ = _section(folder, sections, f"{side}.ids")
        count = size // dtype.itemsize
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != count or (np.diff(offsets) < 0).any():
            raise DamagedError(folder / file, "its offsets do not fit")
        if not size:
            return Sequences(np.empty(0, dtype=dtype), offsets)
        first = start // dtype.itemsize
        ids = self._mapped(folder / file, dtype)[first : first + count]
        if len(ids) != count:
            raise DamagedError(folder / file, "shorter than the manifest says")
        return Sequences(ids, offsets)

    def _mapped(self, file: Path, dtype: np.dtype[Any]) -> Ids:
        """The ids in a file. It is mapped once, because each mapping takes a file descriptor."""
        if file not in self._maps:
            self._maps[file] = np.memmap(file, dtype=dtype, mode="r")
        return self._maps[file]

    @cached_property
    def _maps(self) -> dict[Path, Ids]:
        return {}

    def text(self, direction: str, split: str, side: str) -> list[str]:
        """The raw sentences of one side of a validation or test set."""
        folder = self._artefact(direction, split)
        section = _section(folder, self._sections(direction, split), f"{side}.txt")
        content = read_section(folder, section, np.dtype(np.uint8)).tobytes()
        try:
            return content.decode("utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            raise DamagedError(folder / section[0], "not UTF-8") from error

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """Text <-> ids of both sides."""
        return open_tokenizers(self.vocabulary_folder, self.made_with.data)

    def vocabulary(self, side: str) -> sentencepiece.SentencePieceProcessor:
        """The SentencePiece model of the source or the target side; a store for a pretrained model has none."""
        return sentencepiece.SentencePieceProcessor(model_file=str(self.vocabulary_file(side)))

    def vocabulary_file(self, side: str) -> Path:
        """The file of that model."""
        return self.vocabulary_folder / f"{side}.model"

    @property
    def vocabulary_folder(self) -> Path:
        """The folder of the vocabularies, or of the tokenizer of a pretrained model."""
        return self.folder / str(self.manifest["vocabulary"]["artefact"])

    @property
    def vocabulary_files(self) -> list[Path]:
        """The files in that folder, without metadata."""
        return [self.vocabulary_folder / name for name in artefacts.contents(self.vocabulary_folder)]

    @cached_property
    def vocabulary_hashes(self) -> dict[str, str]:
        """SHA-256 of these files by name."""
        return {file.name: sha256(file) for file in self.vocabulary_files}

    @property
    def fingerprint(self) -> str:
        """A hash of the content: equal for stores made from the same text with the same settings, on any machine."""
        vocabulary = self.manifest["vocabulary"]
        corpora = {
            direction: {split: self._contents(direction, split) for split in self.splits(direction)}
            for direction in self.directions
        }
        return key_of(vocabulary["hash"], vocabulary["tags"], corpora)

    def _artefact(self, direction: str, split: str) -> Path:
        return self.folder / str(self.manifest["directions"][direction][split]["artefact"])

    def _sections(self, direction: str, split: str) -> dict[str, Section]:
        """Where the ids, offsets and text are. In the layout of earlier versions, each is a file."""
        sections = self.manifest["directions"][direction][split].get("sections")
        if sections is None:
            files = artefacts.contents(self._artefact(direction, split))
            sections = {name: (name, 0, size, crc) for name, (size, crc) in files.items()}
        return dict(sections)

    def _contents(self, direction: str, split: str) -> dict[str, list[int]]:
        """Size and checksum of ids, offsets and text."""
        return {name: [size, crc] for name, (_, _, size, crc) in self._sections(direction, split).items()}


def _section(folder: Path, sections: Mapping[str, Section], name: str) -> Section:
    if name not in sections:
        raise DamagedError(folder, f"has no {name}")
    return sections[name]


def config_key(root: Path) -> str | None:
    """A hash of the sections of config.yaml that describe the text and its preparation; None without such a file."""
    try:
        content, _ = yaml12.parse(read_text(root / CONFIG))
        parts = {name: dict(content[name]) for name in ("data", "clean", "vocabulary", "store")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for key in ("folder", "threads"):  # location and number of threads do not matter
        parts["store"].pop(key, None)
    return key_of(parts)


def write_manifest(root: Path, content: dict[str, Any]) -> None:
    """Write the manifest, with a checksum of itself; this completes the store."""
    content = {"format": artefacts.FORMAT, **content}
    content = {**content, "checksums": {name: artefacts.seal(root / name) for name in content["artefacts"]}}
    write_json(root / MANIFEST, {**content, "checksum": key_of(content)})


def open_store(folder: Path, verify: bool = True) -> Store:
    """Open a store for reading; DamagedError if it is incomplete. `verify`: also check the content of every file."""
    root = Path(folder)
    if not (root / MANIFEST).exists():
        raise DamagedError(root, f"not a finished store (no {MANIFEST})", "run `evenglot prepare`")
    try:
        content = read_json(root / MANIFEST)
        intact = content.pop("checksum") == key_of(content, version=content.get("format", artefacts.FORMAT))
        if intact:
            refuse_later(content, root / MANIFEST, artefacts.FORMAT)
    except LaterFormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(root / MANIFEST, "damaged") from error
    if not intact:
        raise DamagedError(root / MANIFEST, "damaged, or from another version")
    try:
        refuse_invalid(content)
    except ValueError as error:
        raise DamagedError(root / MANIFEST, f"not the manifest of a store: {error}") from error
    store = Store(root, content)
    if "config" in content and content["config"] != config_key(root):  # older stores have no such entry
        raise DamagedError(root / CONFIG, "does not match this store")
    if verify:
        store.verify()
    for artefact in store.artefacts:
        if not artefact.exists():
            raise DamagedError(artefact, "missing")
    return store
