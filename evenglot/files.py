"""Writing to disk so that whatever has its name is complete: after a kill, on a full disk, between two processes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

LOCK = ".lock"
UNFINISHED = ".unfinished"  # ends the name of whatever is being written or deleted; nobody reads such a thing


class LockedError(ValueError):
    """Another process is writing in a folder."""


@contextmanager
def finished_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which gets its name, in place of an older one, when the block ends and all is on disk.

    If the block ends with an error, nothing remains of it, and what had the name before is as it was.
    """
    unfinished = _beside(folder, UNFINISHED)
    replaced = _beside(folder, f".replaced{UNFINISHED}")
    for leftover in (unfinished, replaced):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        sync(unfinished)
        if folder.exists():  # set aside, not deleted: half a folder must never have the name
            folder.rename(replaced)
        unfinished.rename(folder)
    except BaseException:
        if replaced.exists() and not folder.exists():
            replaced.rename(folder)
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    _sync_one(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Delete a folder; it loses its name first, so that a kill leaves nothing that looks finished."""
    doomed = _beside(folder, UNFINISHED)
    shutil.rmtree(doomed, ignore_errors=True)
    folder.rename(doomed)
    shutil.rmtree(doomed)


@contextmanager
def lock(folder: Path, message: str, error: type[ValueError] = LockedError) -> Iterator[int]:
    """Let only one process into the block; others get the error with this message. A killed process lets go.

    Gives the descriptor of the lock: whoever inherits it holds on to it.
    """
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise error(message) from taken
        yield file.fileno()


@contextmanager
def finished_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which gets its name when the block ends and all is on disk; after an error it is gone.

    A link leads to the file that is meant. What is no file (a pipe, /dev/null) is written to, not replaced.
    """
    is_stream = path.is_relative_to("/dev") or path.is_relative_to("/proc")  # as /dev/stdout is, whatever it leads to
    if path.exists() and (is_stream or not path.is_file()):
        with path.open("ab") as file:
            yield file
        return
    path = path.resolve()
    unfinished = _beside(path, UNFINISHED)
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text so that the file is complete or unchanged, whatever happens."""
    with finished_file(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """The same with JSON."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def without_paths(value: Any, root: Path) -> Any:
    """JSON that may leave this machine: paths below the root become relative; of others the last part remains."""
    if isinstance(value, dict):
        return {key: without_paths(item, root) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(item, root) for item in value]
    if isinstance(value, str) and os.path.isabs(value):
        path = Path(value)
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return value.replace(f"{root}{os.sep}", "") if isinstance(value, str) else value


def sync(folder: Path) -> None:
    """See that all in a folder has reached the disk before it gets its name."""
    for path in (*folder.rglob("*"), folder):
        _sync_one(path)


def checksum(file: Path) -> int:
    """CRC-32 of a file: against accidents, not against attacks."""
    crc = 0
    with file.open("rb") as content:
        while chunk := content.read(1 << 22):
            crc = zlib.crc32(chunk, crc)
    return crc


def digest(content: bytes) -> str:
    """A short hash of bytes."""
    return blake2b(content, digest_size=8).hexdigest()


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
