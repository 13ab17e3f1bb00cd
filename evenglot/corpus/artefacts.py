"""Results of long work on disk, each made once: a folder that is complete or absent, and knows what it was made from.

An artefact has a name and a key, the hash of everything it depends on; its folder is called `name.key`. It is built
under another name and renamed when all is written, so a killed process leaves nothing that looks finished; what it had
finished is found again by its key. Changing a setting changes the keys of what depends on it, and only that is redone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

META = "meta.json"
FORMAT = 1  # of all files; artefacts of another format are made anew
NAME = re.compile(r".+\.[0-9a-f]{16}(\.unfinished)?")  # of an artefact's folder


class DamagedError(ValueError):
    """A file of the store is missing or not what was written; the message says which and what to do."""


def key_of(*parts: Any) -> str:
    """A short hash of plain values: whatever an artefact depends on."""
    return digest(json.dumps([FORMAT, *parts], sort_keys=True).encode())


def digest(content: bytes) -> str:
    """A short hash of bytes."""
    return blake2b(content, digest_size=8).hexdigest()


def fingerprint(path: Path) -> list[Any]:
    """Changes when a file does: its name, size and time of change. Not its folder, so that a project can be moved."""
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def make(root: Path, name: str, key: str, build: Callable[[Path], dict[str, Any]]) -> Path:
    """The folder of an artefact; built now, if it is not there yet.

    `build` writes files into the folder it is given and returns what should be remembered of them (counts, settings).
    """
    folder = root / f"{name}.{key}"
    if is_intact(folder):
        return folder
    unfinished = root / f"{name}.{key}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        about = build(unfinished)
        files = {file.name: [file.stat().st_size, checksum(file)] for file in sorted(unfinished.iterdir())}
        write_json(unfinished / META, {"about": about, "files": files})
        sync(unfinished)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)  # a damaged one
    unfinished.rename(folder)
    return folder


def about(folder: Path) -> dict[str, Any]:
    """What `build` wanted to be remembered."""
    try:
        content: dict[str, Any] = json.loads((folder / META).read_text(encoding="utf-8"))["about"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{folder}: incomplete or damaged; run `evenglot prepare` again") from error
    return content


def verify(folder: Path) -> None:
    """Raise DamagedError unless every file is there with its size and checksum."""
    try:
        files = json.loads((folder / META).read_text(encoding="utf-8"))["files"]
        for name, (size, crc) in files.items():
            file = folder / name
            if file.stat().st_size != size or checksum(file) != crc:
                raise DamagedError(f"{file}: changed since it was written; run `evenglot prepare` again")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(f"{folder}: incomplete or damaged; run `evenglot prepare` again") from error


def is_intact(folder: Path) -> bool:
    """Is it there, and as it was written?"""
    try:
        verify(folder)
    except DamagedError:
        return False
    return True


def remove_others(places: Iterable[Path], wanted: Iterable[Path]) -> None:
    """Delete the artefacts in these folders but those wanted: what earlier settings and killed processes left.

    Only folders that are named like an artefact are touched, and only directly in the places given.
    """
    keep = {folder.resolve() for folder in wanted}
    for place in places:
        for folder in sorted(place.iterdir()) if place.is_dir() else []:
            if folder.is_dir() and NAME.fullmatch(folder.name) and folder.resolve() not in keep:
                shutil.rmtree(folder)


def checksum(file: Path) -> int:
    """CRC-32 of a file: against accidents, not against attacks."""
    crc = 0
    with file.open("rb") as content:
        while chunk := content.read(1 << 22):
            crc = zlib.crc32(chunk, crc)
    return crc


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that the file is complete or unchanged, whatever happens."""
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def sync(folder: Path) -> None:
    """See that a folder's files have reached the disk before it gets its name."""
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
