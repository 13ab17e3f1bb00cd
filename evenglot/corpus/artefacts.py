"""Cached results on disk: folders that are complete or absent, named by a hash of their inputs.

An artefact has a name and a key, the hash of everything it depends on; its folder is called `name.key`. It is written
under a temporary name and renamed when complete, so an interrupted process leaves nothing that looks finished, and what
it had finished is found again by its key. Changing a setting changes the keys of the artefacts that depend on it, and
only those are rebuilt.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from evenglot.files import checksum, digest, finished_folder, write_json
from evenglot.reading import read_json

META = "meta.json"
FORMAT = 2  # of all files; artefacts in another format are rebuilt
JOURNAL = "journal.jsonl"  # of unfinished work, not part of an artefact
BEGUN = ".begun"  # suffix of folders in which work goes on after an interruption (see bundle.py)
NAME = re.compile(r".+\.[0-9a-f]{16}((\.replaced)?\.unfinished|\.begun)?")  # of an artefact's folder


class DamagedError(ValueError):
    """A file of the store is missing or damaged: its `path`, the `fault`, and what to do (`advice`)."""

    def __init__(self, path: Path, fault: str, advice: str = "run `evenglot prepare` again") -> None:
        super().__init__(path, fault, advice)
        self.path, self.fault, self.advice = path, fault, advice

    def __str__(self) -> str:
        return f"{self.path}: {self.fault}; {self.advice}"


def key_of(*parts: Any, version: int = FORMAT) -> str:
    """A short hash of plain values: everything an artefact depends on."""
    return digest(json.dumps([version, *parts], sort_keys=True).encode())


def fingerprint(path: Path) -> list[Any]:
    """Name, size and modification time of a file, without its folder, so that a project can be moved."""
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def make(root: Path, name: str, key: str, build: Callable[[Path], dict[str, Any]]) -> Path:
    """The folder of an artefact, built now if it does not exist yet.

    `build` writes files into the folder it is given and returns metadata about them (counts, settings).
    """
    folder = root / f"{name}.{key}"
    if is_intact(folder):
        return folder
    with finished_folder(folder) as unfinished:  # replaces a damaged one
        about = build(unfinished)
        written = [file for file in sorted(unfinished.iterdir()) if file.name != JOURNAL]
        files = {file.name: [file.stat().st_size, checksum(file)] for file in written}
        write_json(unfinished / META, {"about": about, "files": files, "checksum": key_of(about, files)})
    return folder


def about(folder: Path) -> dict[str, Any]:
    """The metadata that `build` returned."""
    return _meta(folder, "about")


def contents(folder: Path) -> dict[str, Any]:
    """Size and checksum of every file."""
    return _meta(folder, "files")


def seal(folder: Path) -> str:
    """A checksum of all checksums."""
    return key_of(contents(folder))


def _meta(folder: Path, key: str) -> dict[str, Any]:
    try:
        content = read_json(folder / META)
        found: dict[str, Any] = content[key]
        expected = {"checksum": key_of(content["about"], content["files"])} if len(content) > 2 else {}  # older: none
        intact = content == {"about": content["about"], "files": content["files"], **expected}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(folder, "incomplete or damaged") from error
    if not intact:
        raise DamagedError(folder / META, "changed since it was written")
    return found


def verify(folder: Path) -> None:
    """Raise DamagedError unless every file exists with its recorded size and checksum."""
    try:
        for name, (size, crc) in contents(folder).items():
            file = folder / Path(name).name
            if file.stat().st_size != size or checksum(file) != crc:
                raise DamagedError(file, "changed since it was written")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(folder, "incomplete or damaged") from error


def is_intact(folder: Path) -> bool:
    """Does the artefact exist, unchanged since it was written?"""
    try:
        verify(folder)
    except DamagedError:
        return False
    return True


def remove_others(places: Iterable[Path], wanted: Iterable[Path]) -> None:
    """Delete all artefacts in these folders except those wanted: leftovers of earlier settings or interruptions.

    Only folders named like an artefact, directly inside the given places, are touched.
    """
    keep = {folder.resolve() for folder in wanted}
    for place in places:
        for folder in sorted(place.iterdir()) if place.is_dir() else []:
            if folder.is_dir() and NAME.fullmatch(folder.name) and folder.resolve() not in keep:
                shutil.rmtree(folder, ignore_errors=True)  # Windows keeps files that another process has open
