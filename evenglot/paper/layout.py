"""Our corpus layout: `train.aze-en.aze.gz` and `train.aze-en.en.gz`, `valid...`, `test...`, and a manifest.

A folder is written under a temporary name and renamed when complete. The same text gives the same bytes, so checksums
can be compared between machines.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from evenglot import __version__
from evenglot.corpus.read import CorpusError
from evenglot.directions import Direction
from evenglot.files import finished_folder, sha256, write_json

SPLITS = ("train", "valid", "test")
ENGLISH = "en"
MANIFEST = "manifest.json"

Manifest = dict[str, Any]


class PairWriter:
    """Writes sentence pairs and counts them; the caller counts removed pairs by reason."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source, self._target = source, target
        self.pairs = 0
        self.removed: Counter[str] = Counter()

    def write(self, source: str, target: str) -> None:
        """Write one line to each side."""
        self._source.write(source.encode() + b"\n")
        self._target.write(target.encode() + b"\n")
        self.pairs += 1


class Layout:
    """A folder being written, and its manifest."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self.manifest: Manifest = {
            **about,
            "made_by": f"evenglot {__version__}",
            "layout": "<split>.<language>-en.<language>.gz and <split>.<language>-en.en.gz, one sentence per line",
            "languages": {},  # {language: {split: {"pairs": 5, "removed": {"empty": 1}}}}
            "warnings": [],
            "inputs": {},  # SHA-256 by file
            "outputs": {},
        }

    @contextmanager
    def writer(self, split: str, language: str) -> Iterator[PairWriter]:
        """A writer for one split of a language; its counts are added to the manifest."""
        pair = Direction(language, ENGLISH).name
        source, target = (self.folder / f"{split}.{pair}.{side}.gz" for side in (language, ENGLISH))
        with _gzipped(source) as source_file, _gzipped(target) as target_file:
            writer = PairWriter(source_file, target_file)
            yield writer
        counts = {"pairs": writer.pairs, "removed": dict(sorted(writer.removed.items()))}
        self.manifest["languages"].setdefault(language, {})[split] = counts
        if not writer.pairs:
            self.warn(f"{language} {split}: no sentence pairs")

    def made_from(self, inputs: Iterable[Path]) -> None:
        """Record the input files and their checksums in the manifest."""
        for path in dict.fromkeys(inputs):
            try:
                self.manifest["inputs"][str(path)] = sha256(path)
            except OSError as error:
                raise CorpusError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error

    def warn(self, message: str) -> None:
        """Add a warning to the manifest."""
        self.manifest["warnings"].append(message)


@contextmanager
def create(out: Path, about: Mapping[str, Any], overwrite: bool = False) -> Iterator[Layout]:
    """A layout to write into, renamed to `out` at the end of the block and deleted after an error."""
    out = out.resolve()
    _check_free(out, overwrite)
    with finished_folder(out) as unfinished:
        layout = Layout(unfinished, about)
        yield layout
        layout.manifest["outputs"] = {file.name: sha256(file) for file in sorted(unfinished.iterdir())}
        write_json(unfinished / MANIFEST, layout.manifest)


@contextmanager
def _gzipped(path: Path) -> Iterator[BinaryIO]:
    """A gzip file to write, without name and time in its header, so that the bytes depend only on the content."""
    with path.open("wb") as raw, gzip.GzipFile("", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as file:
        yield cast(BinaryIO, file)


def _check_free(out: Path, overwrite: bool) -> None:
    """Raise CorpusError if `out` is not empty, unless `overwrite` is set and a recipe wrote its content."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not overwrite:
        raise CorpusError(f"{out}: already exists; choose another folder, or pass overwrite=True")
    try:
        json.loads((out / MANIFEST).read_text(encoding="utf-8"))["recipe"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{out}: was not written by a recipe; choose another folder, or delete it first") from error
