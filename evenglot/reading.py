"""Files of others: what is read is a regular file of limited size, and JSON has finite numbers and limited depth."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_JSON = 1 << 28  # bytes; that of a run with thousands of directions is far smaller
LARGEST_TEXT = 1 << 24  # bytes; of settings and ids, not of corpora
LARGEST_INTEGER = 2**63
DEEPEST = 50  # levels of nesting; our files have fewer than ten
# Do not wait for the other end of a pipe. Windows has O_BINARY instead of the others.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_LONG_NUMBER = re.compile(r"\d{19}|[eE]\+?\d{3}")  # or a text with such digits


class UnreadableError(ValueError):
    """A file cannot be what it should be; the message has no path."""


class LaterFormatError(ValueError):
    """A file is of a later version of evenglot. It is intact, so nothing may take its place."""


def refuse_later(content: Mapping[str, Any], path: Path, supported: int, key: str = "format") -> None:
    """Raise LaterFormatError if the format of a file, by its number, is later than those we know; old files have none.

    What is no number is left to the checks of the content.
    """
    if type(found := content.get(key)) is int and found > supported:
        raise LaterFormatError(
            f"{path}: `{key}`: version {found} is not supported (at most {supported}); upgrade evenglot"
        )


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file of at most `most` bytes; UnreadableError for anything else, OSError if it fails.

    A pipe or a device could have no end, and a file that is too large would be read for long before it is refused.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise UnreadableError(f"larger than {most:,} bytes")
        return file.read(size)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; UnreadableError for anything else, without waiting for it."""
    descriptor = os.open(path, _READ)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableError("not a regular file")
    return open(descriptor, "rb")


def read_text(path: Path, most: int = LARGEST_TEXT) -> str:
    """The text of a regular file; UnreadableError if it is another kind of file, too large, or not UTF-8."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 (byte 0x{error.object[error.start]:02x} at {error.start})") from error


def read_json(path: Path, most: int = LARGEST_JSON) -> Any:
    """The JSON value in a file; UnreadableError if it is none or too large, OSError if it cannot be read."""
    return parse_json(read_bytes(path, most))


def parse_json(content: bytes) -> Any:
    """A JSON value whose numbers are finite and no larger than 64-bit integers; UnreadableError for anything else."""
    try:
        text = content.decode("utf-8")
        is_unusual = _LONG_NUMBER.search(text) is not None
        value = json.loads(
            text,
            parse_constant=_refuse,
            parse_int=_integer if is_unusual else None,
            parse_float=_float if is_unusual else None,
        )
    except UnreadableError:
        raise
    except (ValueError, RecursionError) as error:
        raise UnreadableError("not JSON") from error
    if text.count("{") + text.count("[") > DEEPEST and _is_deep(value):
        raise UnreadableError(f"nested more than {DEEPEST} levels deep")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _refuse(text: str) -> Any:
    raise UnreadableError(f"contains the number {text:.20}, which is out of range")


def _integer(text: str) -> int:
    number = int(text) if len(text) < 21 else LARGEST_INTEGER
    return number if abs(number) < LARGEST_INTEGER else _refuse(text)


def _float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)
