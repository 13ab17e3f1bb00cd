"""Our layout of a corpus: `train.aze-en.aze.gz` beside `train.aze-en.en.gz`, `valid...`, `test...`, and a manifest.

A folder is complete or absent: it is written under another name and renamed at the end. Equal text gives equal bytes,
so that two people can compare checksums.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from evenglot import __version__
from evenglot.corpus.read import CorpusError
from evenglot.directions import Direction
from evenglot.files import sync, write_json

SPLITS = ("train", "valid", "test")
ENGLISH = "en"
MANIFEST = "manifest.json"

Manifest = dict[str, Any]


class PairWriter:
    """Writes sentence pairs, and counts those that its user removes, by reason."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source, self._target = source, target
        self.pairs = 0
        self.removed: Counter[str] = Counter()

    def write(self, source: str, target: str) -> None:
        """One line on each side."""
        self._source.write(source.encode() + b"\n")
        self._target.write(target.encode() + b"\n")
        self.pairs += 1


class Layout:
    """A folder that is being written, and the manifest that will stand in it."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self.manifest: Manifest = {
            **about,
            "made_by": f"evenglot {__version__}",
            "layout": "<split>.<language>-en.<language>.gz and <split>.<language>-en.en.gz, one sentence a line",
            "languages": {},  # {language: {split: {"pairs": 5, "removed": {"empty": 1}}}}
            "warnings": [],
            "inputs": {},  # SHA-256 by file
            "outputs": {},
        }

    @contextmanager
    def writer(self, split: str, language: str) -> Iterator[PairWriter]:
        """For one split of a language; its counts go into the manifest."""
        pair = Direction(language, ENGLISH).name
        source, target = (self.folder / f"{split}.{pair}.{side}.gz" for side in (language, ENGLISH))
        with _gzipped(source) as source_file, _gzipped(target) as target_file:
            writer = PairWriter(source_file, target_file)
            yield writer
        counts = {"pairs": writer.pairs, "removed": dict(sorted(writer.removed.items()))}
        self.manifest["languages"].setdefault(language, {})[split] = counts
        if not writer.pairs:
            self.warn(f"{language} {split}: not a single pair")

    def made_from(self, inputs: Iterable[Path]) -> None:
        """Remember what a corpus was made from."""
        for path in dict.fromkeys(inputs):
            try:
                self.manifest["inputs"][str(path)] = sha256(path)
            except OSError as error:
                raise CorpusError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error

    def warn(self, message: str) -> None:
        """Something that the user should know, and that does not prevent the work."""
        self.manifest["warnings"].append(message)


@contextmanager
def create(out: Path, about: Mapping[str, Any], overwrite: bool = False) -> Iterator[Layout]:
    """A layout to write into. It becomes `out` when the block ends; if it ends with an error, nothing remains of it."""
    out = out.resolve()
    _check_free(out, overwrite)
    unfinished = out.with_name(f"{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    unfinished.mkdir(parents=True)
    try:
        layout = Layout(unfinished, about)
        yield layout
        layout.manifest["outputs"] = {file.name: sha256(file) for file in sorted(unfinished.iterdir())}
        write_json(unfinished / MANIFEST, layout.manifest)
        sync(unfinished)
        if out.exists():
            shutil.rmtree(out)
        unfinished.rename(out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _gzipped(path: Path) -> Iterator[BinaryIO]:
    """A file to write; the header of gzip gets neither name nor time."""
    with path.open("wb") as raw, gzip.GzipFile("", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as file:
        yield cast(BinaryIO, file)


def _check_free(out: Path, overwrite: bool) -> None:
    """May this folder be written? With `overwrite`, what an earlier recipe wrote may go, but nothing else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not overwrite:
        raise CorpusError(f"{out}: already there; choose another folder, or ask to overwrite it")
    try:
        json.loads((out / MANIFEST).read_text(encoding="utf-8"))["recipe"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{out}: not written by a recipe; choose another folder, or remove it yourself") from error
