"""Atomic writes: a file or folder is complete or absent, even after a crash, on a full disk or with two processes."""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from evenglot.locks import try_lock

LOCK = ".lock"
UNFINISHED = ".unfinished"  # suffix of files and folders that are being written or deleted; never read
REPLACED = f".replaced{UNFINISHED}"  # of a folder while another one takes its name
DESCRIPTORS = re.compile(r"/dev/fd|/proc/\d+(/task/\d+)?/fd")  # folders of the open files of a process
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
IS_POSIX = hasattr(os, "O_DIRECTORY")  # Windows can neither sync folders nor rename open files


def _renameat2_of_libc() -> Any:
    """The function, on Linux; None elsewhere."""
    try:
        return getattr(ctypes.CDLL(None), "renameat2", None)
    except (OSError, TypeError):  # Windows cannot open the program itself
        return None


_renameat2 = _renameat2_of_libc()


class LockedError(ValueError):
    """Another process holds the lock of a folder."""


@contextmanager
def finished_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write into, synced and renamed to `folder` at the end of the block, replacing an older one.

    After an error the temporary folder is deleted and the older one is unchanged. A process that is killed while
    replacing leaves one of both; where the system cannot exchange folders in one step, `restore` may have to find it.
    """
    unfinished, replaced = _beside(folder, UNFINISHED), _beside(folder, REPLACED)
    restore(folder)
    for leftover in (unfinished, replaced):  # left by a process that was killed
        _remove(leftover)
    unfinished.mkdir(parents=True)
    try:
        with full_disk_named(folder):
            yield unfinished
            sync(unfinished)
        if not folder.exists():
            unfinished.rename(folder)
        elif not _exchange(unfinished, folder):
            folder.rename(replaced)  # not deleted in place: a partial folder must never have this name
            unfinished.rename(folder)
    except BaseException:
        restore(folder)
        _remove(unfinished)
        raise
    _sync_one(folder.parent)
    for old in (unfinished, replaced):
        _remove(old)


def restore(folder: Path) -> None:
    """Give a folder its name back if a process was killed while replacing it."""
    replaced = _beside(folder, REPLACED)
    if replaced.exists() and not folder.exists():
        replaced.rename(folder)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False if the system or the file system cannot do that."""
    if _renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(_renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def remove_folder(folder: Path) -> None:
    """Delete a folder, renaming it first so that an interruption leaves no partial folder with its name."""
    doomed = _beside(folder, UNFINISHED)
    _remove(doomed)
    folder.rename(doomed)
    shutil.rmtree(doomed)


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Add this path to errors of writing that name none: which disk is full?"""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def lock(
    folder: Path, message: str, error: type[ValueError] = LockedError, *, name: str = LOCK, shared: bool = False
) -> Iterator[int]:
    """Hold a lock on a folder during the block; raise `error(message)` if another process holds it.

    A shared lock may be held by several processes, an exclusive one by one alone. Yields the file descriptor of the
    lock. The lock ends with the process, or with the last one that inherited it.
    """
    with (folder / name).open("a+") as file:
        if not try_lock(file, shared=shared):
            raise error(message)
        yield file.fileno()


@contextmanager
def finished_file(path: Path, *, own: bool = False) -> Iterator[BinaryIO]:
    """A temporary file to write into, synced and renamed to `path` at the end of the block, deleted after an error.

    Links are followed. Anything but a regular file (a pipe, /dev/null, /dev/stdout) is appended to, not replaced; but
    what stands in the place of a file of our `own`, whose name nobody has chosen, is replaced.
    """
    is_regular = path.is_file() or not path.exists()
    if not own and (not is_regular or _is_descriptor(path)):
        with full_disk_named(path), path.open("ab") as stream:
            yield stream
        return
    path = path.resolve() if is_regular else path
    _remove_abandoned(path)
    unfinished, file = _create_beside(path)
    try:
        with full_disk_named(path), file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not IS_POSIX:
                file.close()
            unfinished.replace(path)  # before the lock ends, if possible
    finally:
        unfinished.unlink(missing_ok=True)


def _create_beside(path: Path) -> tuple[Path, BinaryIO]:
    """A new file that no other process has or can prepare, as its name is random; locked while it is written."""
    while True:
        unfinished = _beside(path, f".{token_hex(4)}{UNFINISHED}")
        file = unfinished.open("xb")  # never an existing file, nor what a link leads to
        is_ours = True
        with suppress(OSError):  # not every file system has locks
            is_ours = try_lock(file)
        if is_ours and os.fstat(file.fileno()).st_nlink:
            return unfinished, file
        file.close()  # another process took it for abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Delete what killed processes left: unfinished files that nobody has locked."""
    # A pipe with such a name must not stop us; Windows has none in folders.
    flags = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    for leftover in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 8}{UNFINISHED}"):
        with suppress(OSError), open(os.open(leftover, flags), "wb") as file:
            if not try_lock(file):
                continue
            if not IS_POSIX:
                file.close()
            leftover.unlink()


def _is_descriptor(path: Path) -> bool:
    """Is this the name of an open file of a process, such as /dev/stdout, perhaps by way of links?

    Standard output that is redirected to a regular file is a stream for us, but looks like that file.
    """
    while True:
        folder = path.parent.resolve()
        if DESCRIPTORS.fullmatch(str(folder)):
            return True
        if not path.is_symlink():
            return False
        path = folder / path.readlink()


def write_text(path: Path, text: str, *, own: bool = False) -> None:
    """Write a text file atomically; `own` as in `finished_file`."""
    with finished_file(path, own=own) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file of our own atomically."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n", own=True)


def without_paths(value: Any, root: Path) -> Any:
    """JSON without local paths: those below `root` become relative, others are reduced to their last part."""
    if isinstance(value, dict):
        return {key: without_paths(item, root) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(item, root) for item in value]
    if isinstance(value, str) and os.path.isabs(value):
        path = Path(value)
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return value.replace(f"{root}{os.sep}", "") if isinstance(value, str) else value


def sync(folder: Path) -> None:
    """Flush a folder and everything in it to disk."""
    for path in (*folder.rglob("*"), folder):
        _sync_one(path)


def checksum(file: Path) -> int:
    """CRC-32 of a file: detects accidental damage, not tampering."""
    crc = 0
    if not file.is_file():  # a device may have no end
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    with file.open("rb") as content:
        while chunk := content.read(1 << 22):
            crc = zlib.crc32(chunk, crc)
    return crc


def sha256(file: Path) -> str:
    """SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def digest(content: bytes) -> str:
    """A short hash of bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _remove(path: Path) -> None:
    """Delete a folder, or what else has its name, as far as possible."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _sync_one(path: Path) -> None:
    if not IS_POSIX and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if IS_POSIX else os.O_RDWR)  # Windows syncs only what it may write
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
