"""Our corpus layout: `train.aze-en.aze.gz` and `train.aze-en.en.gz`, `valid...`, `test...`, and a manifest.

Held-out sets that are only for the direction from English are named `test.en-tam...`. A folder is written under a
temporary name and renamed when complete. The same text gives the same bytes, so checksums can be compared between
machines.
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
FROM_ENGLISH = "_from_english"  # suffix of splits that are used for the direction from English only
ENGLISH = "en"
MANIFEST = "manifest.json"
CONFIG, GRID = "conf.yaml", "paper.yaml"

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
        direction = Direction(language, ENGLISH)
        pair = (direction.reverse() if split.endswith(FROM_ENGLISH) else direction).name
        name = f"{split.removesuffix(FROM_ENGLISH)}.{pair}"
        source, target = (self.folder / f"{name}.{side}.gz" for side in (language, ENGLISH))
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

    def expect(self, language: str, split: str, pairs: int | None, where: str) -> None:
        """Add a warning if a split does not have this number of pairs."""
        found = self.manifest["languages"][language][split]["pairs"]
        if pairs is not None and found != pairs:
            self.warn(f"{language} {split}: {found:,} pairs, but {pairs:,} {where}; another release?")

    def warn(self, message: str) -> None:
        """Add a warning to the manifest."""
        self.manifest["warnings"].append(message)


@contextmanager
def create(
    out: Path, about: Mapping[str, Any], overwrite: bool = False, files: Mapping[str, str] | None = None
) -> Iterator[Layout]:
    """A layout to write into, renamed to `out` at the end of the block and deleted after an error.

    `files`: other files to write there, by name.
    """
    out = out.resolve()
    check_free(out, overwrite)
    with finished_folder(out) as unfinished:
        layout = Layout(unfinished, about)
        yield layout
        for name, text in (files or {}).items():
            (unfinished / name).write_text(text, encoding="utf-8")
        layout.manifest["outputs"] = {file.name: sha256(file) for file in sorted(unfinished.iterdir())}
        write_json(unfinished / MANIFEST, layout.manifest)


@contextmanager
def _gzipped(path: Path) -> Iterator[BinaryIO]:
    """A gzip file to write, without name and time in its header, so that the bytes depend only on the content."""
    with path.open("wb") as raw, gzip.GzipFile("", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as file:
        yield cast(BinaryIO, file)


def check_free(out: Path, overwrite: bool) -> None:
    """CorpusError if `out` is not empty, unless `overwrite` is set and it has nothing but the output of a recipe."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not overwrite:
        raise CorpusError(f"{out}: already exists; choose another folder, or overwrite it (--overwrite)")
    try:
        manifest = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        written = {MANIFEST, *manifest["outputs"]} if manifest["recipe"] else set()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{out}: was not written by a recipe; choose another folder, or delete it first") from error
    if others := sorted({path.name for path in out.iterdir()} - written):
        raise CorpusError(
            f"{out}: also has {', '.join(others[:3])}, which would be lost; move it, or choose another folder"
        )
