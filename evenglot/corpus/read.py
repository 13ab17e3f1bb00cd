"""Line-exact readers of parallel text: plain, .gz or .zst, two files side by side or columns of a TSV.

Only "\\n" ends a line. Python's text mode would also break lines at U+2028, form feeds and lone carriage returns, which
real corpora contain, and then source and target no longer belong together.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from evenglot.text_file import TextFile

CHUNK = 1 << 20
LONGEST_LINE = 1 << 20  # bytes; text has no such sentences, binary files and lost line ends do
ZSTD_CHUNK = 1 << 11  # a chunk can become 30,000 times as long
BOM = b"\xef\xbb\xbf"

Pair = tuple[str, str]
Advance = Callable[[int], object]  # told how many bytes were read


class CorpusError(ValueError):
    """Something about a text file that its owner must decide: the message says where and what."""


def read_chunks(path: Path, on_read: Advance | None = None) -> Iterator[bytes]:
    """The content of a file in pieces, decompressed by its extension; `on_read` hears of the bytes taken from disk."""
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
    """Frame by frame, because zstandard's own stream takes a file that is cut off for one that ends."""
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
    """A file that tells how much was read, for progress bars: compressed files do not know their lines."""

    def __init__(self, file: BinaryIO, on_read: Advance) -> None:
        self._file, self._on_read = file, on_read

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self._on_read(len(chunk))
        return chunk


def read_lines(path: Path, on_read: Advance | None = None) -> Iterator[bytes]:
    """The lines of a file without their "\\n", as bytes. A last line needs no "\\n"; a byte order mark is not text."""
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
        raise CorpusError(f"{path}:{number + 1}: cannot read on: {_reason(error)}") from error
    rest = rest if number else rest.removeprefix(BOM)
    if rest:
        yield rest


def _not_endless(line: bytes, path: Path, number: int) -> bytes:
    if len(line) > LONGEST_LINE:
        raise CorpusError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes; is this text?")
    return line


def _reason(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "the compressed file is cut off"
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
            raise CorpusError(f"{file.path}:{number}: {len(cells)} columns, but column {column + 1} is wanted")
        yield cells[column]


def read_pairs(source: TextFile, target: TextFile, on_read: Advance | None = None) -> Iterator[Pair | None]:
    """Sentence pairs, white space at their ends removed; None where a line is not UTF-8 (see `reject_invalid`).

    Files of unequal length are refused, with both counts.
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
        raise CorpusError(
            f"{source.path} has {counts[0]:,} lines, {target.path} has {counts[1]:,}: they cannot be parallel"
        )


def reject_invalid(pairs: Iterator[Pair | None], source: TextFile, target: TextFile, advice: str) -> Iterator[Pair]:
    """The pairs, or an error at the first line that is not UTF-8, naming its file and line, and what to do."""
    for number, pair in enumerate(pairs, 1):
        if pair is None:
            raise CorpusError(f"{_first_invalid(number, source, target)}; {advice}")
        yield pair


def _first_invalid(number: int, source: TextFile, target: TextFile) -> str:
    """Which of the two files is at fault in this line? Read again to see: it happens once, and then we stop."""
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
