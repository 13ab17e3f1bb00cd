"""Line-exact readers of parallel text: plain, .gz or .zst, two files side by side or columns of a TSV.

Only "\\n" ends a line. Python's text mode would also break lines at U+2028, form feeds and lone carriage returns, which
real corpora contain, and source and target would no longer be aligned.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from evenglot.text_file import TextFile

CHUNK = 1 << 20
LONGEST_LINE = 1 << 20  # bytes; real sentences are shorter, binary files and lost line ends are not
ZSTD_CHUNK = 1 << 11  # a chunk can expand 30,000 times
BOM = b"\xef\xbb\xbf"

Pair = tuple[str, str]
Advance = Callable[[int], object]  # called with the number of bytes read


class CorpusError(ValueError):
    """A problem with a text file; the message says where, what and how to fix it."""


def read_chunks(path: Path, on_read: Advance | None = None) -> Iterator[bytes]:
    """The content of a file in chunks, decompressed by extension; `on_read` is called with the bytes read from disk."""
    with path.open("rb") as raw:
        file = cast(BinaryIO, raw if on_read is None else _Counted(raw, on_read))
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
                yield from iter(lambda: unzipped.read(CHUNK), b"")
        elif path.suffix == ".zst":
            yield from _unpack_zstd(file)
        else:
            yield from iter(lambda: file.read(CHUNK), b"")


def _unpack_zstd(file: BinaryIO) -> Iterator[bytes]:
    """Decompress frame by frame, because zstandard's own stream reader does not detect truncated files."""
    import zstandard

    frame, in_frame = zstandard.ZstdDecompressor().decompressobj(), False
    try:
        while data := file.read(ZSTD_CHUNK):
            while data:
                yield frame.decompress(data)
                data, in_frame = frame.unused_data, not frame.eof
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError as error:
        raise OSError(f"the compressed file is damaged ({error})") from error
    if in_frame:
        raise EOFError


class _Counted:
    """A file that reports the bytes read, for progress bars of compressed files."""

    def __init__(self, file: BinaryIO, on_read: Advance) -> None:
        self._file, self._on_read = file, on_read

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self._on_read(len(chunk))
        return chunk


def read_lines(path: Path, on_read: Advance | None = None) -> Iterator[bytes]:
    """The lines of a file as bytes, without "\\n" and byte order mark. The last line needs no "\\n"."""
    number = 0
    rest = b""
    try:
        for chunk in read_chunks(path, on_read):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                line = _not_endless(line, path, number)
                yield line if number > 1 else line.removeprefix(BOM)
            _not_endless(rest, path, number + 1)
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: no such file") from error
    except (OSError, EOFError, zlib.error) as error:  # gzip's own errors are OSErrors
        raise CorpusError(f"{path}:{number + 1}: cannot be read: {_reason(error)}") from error
    rest = rest if number else rest.removeprefix(BOM)
    if rest:
        yield rest


def _not_endless(line: bytes, path: Path, number: int) -> bytes:
    if len(line) > LONGEST_LINE:
        raise CorpusError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes; is this a text file?")
    return line


def _reason(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "the compressed file is truncated"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).lower()


def read_column(file: TextFile, on_read: Advance | None = None) -> Iterator[bytes]:
    """One side of a corpus, line by line: the whole line, or its column in a TSV."""
    lines = read_lines(file.path, on_read)
    if file.column is None:
        yield from lines
        return
    column, first = file.column, 1
    if isinstance(column, str):
        header = [name.strip().decode("utf-8", "replace") for name in next(lines, b"").split(b"\t")]
        if column not in header:
            raise CorpusError(f"{file.path}:1: no column {column!r}; the header has {', '.join(header)}")
        column, first = header.index(column), 2
    for number, line in enumerate(lines, first):
        cells = line.split(b"\t")
        if len(cells) <= column:
            raise CorpusError(f"{file.path}:{number}: {len(cells)} columns, but column {column + 1} is needed")
        yield cells[column]


def read_pairs(source: TextFile, target: TextFile, on_read: Advance | None = None) -> Iterator[Pair | None]:
    """Sentence pairs, stripped; None where a line is not UTF-8 (see `reject_invalid`).

    Files of unequal length are an error that gives both counts.
    """
    end = object()
    sources, targets = read_column(source, on_read), read_column(target, on_read)
    number = 0
    while True:
        left, right = next(sources, end), next(targets, end)
        if left is end or right is end:
            break
        number += 1
        try:
            yield cast(bytes, left).decode("utf-8").strip(), cast(bytes, right).decode("utf-8").strip()
        except UnicodeDecodeError:
            yield None
    if left is not end or right is not end:
        longer = number + 1 + sum(1 for _ in (sources if right is end else targets))
        counts = (longer, number) if right is end else (number, longer)
        raise CorpusError(f"{source.path} has {counts[0]:,} lines, {target.path} has {counts[1]:,}: not parallel")


def reject_invalid(pairs: Iterator[Pair | None], source: TextFile, target: TextFile, advice: str) -> Iterator[Pair]:
    """The pairs, or an error that names file and line of the first one that is not UTF-8, with this advice."""
    for number, pair in enumerate(pairs, 1):
        if pair is None:
            raise CorpusError(f"{_first_invalid(number, source, target)}; {advice}")
        yield pair


def _first_invalid(number: int, source: TextFile, target: TextFile) -> str:
    """Which of the two files has the invalid line? Reads them again, once, before the error is raised."""
    for file in (source, target):
        for at, line in enumerate(read_column(file), 1):
            if at == number:
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    where = at + (1 if isinstance(file.column, str) else 0)
                    return f"{file.path}:{where}: not UTF-8 (byte 0x{line[error.start]:02x} at {error.start})"
                break
    return f"{source.path}:{number}: not UTF-8"
