"""Line-exact readers of parallel text: plain, .gz or .zst, two files side by side or columns of a TSV.

Only "\\n" ends a line. Python's text mode would also break lines at U+2028, form feeds and lone carriage returns, which
real corpora contain, and source and target would no longer be aligned.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from evenglot.text_file import TextFile

CHUNK = 1 << 20
BLOCK_LINES = 8192
NEWLINE = 10
LONGEST_LINE = 1 << 20  # bytes; real sentences are shorter, binary files and lost line ends are not
ZSTD_CHUNK = 1 << 11  # a chunk can expand 30,000 times
BOM = b"\xef\xbb\xbf"

Pair = tuple[str, str]
Files = tuple[TextFile, TextFile]
Stops = NDArray[np.int64]  # positions of "\n"
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
                text = frame.decompress(data)
                yield from (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))
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
    for data, _ in _whole_lines(path, on_read):
        yield from split_lines(data)


def split_lines(data: bytes) -> list[bytes]:
    """The lines of a text in which every line ends with "\\n"."""
    return data[:-1].split(b"\n") if data else []


def _whole_lines(path: Path, on_read: Advance | None) -> Iterator[tuple[bytes, Stops]]:
    """A file in chunks of whole lines, and where these lines end. A "\\n" is added to a last line without one."""
    number = 0
    rest = b""
    try:
        for chunk in read_chunks(path, on_read):
            whole, newline, after = chunk.rpartition(b"\n")
            if newline:
                data = rest + whole + newline
                data, rest = (data if number else data.removeprefix(BOM)), after
                stops = _stops(data, path, number)
                number += len(stops)
                yield data, stops
            else:
                rest += chunk
            if len(rest) > LONGEST_LINE:
                raise _endless(path, number + 1)
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: no such file") from error
    except (OSError, EOFError, zlib.error) as error:  # gzip's own errors are OSErrors
        raise CorpusError(f"{path}:{number + 1}: cannot be read: {_reason(error)}") from error
    rest = rest if number else rest.removeprefix(BOM)
    if rest:
        yield rest + b"\n", np.array([len(rest)])


def _stops(data: bytes, path: Path, number: int) -> Stops:
    """Where the lines end; an error if one is too long. `number`: of lines before these."""
    stops = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == NEWLINE)
    if len(data) > LONGEST_LINE:
        endless = np.diff(stops, prepend=-1) > LONGEST_LINE + 1
        if endless.any():
            raise _endless(path, number + 1 + int(np.argmax(endless)))
    return stops


def _endless(path: Path, number: int) -> CorpusError:
    return CorpusError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes; is this a text file?")


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
    named = isinstance(file.column, str)
    column = column_of(file, lambda: next(lines, b"")) if isinstance(file.column, str) else file.column
    for number, line in enumerate(lines, 1 + named):
        yield from cells([line], column, file.path, number)


def read_pairs(source: TextFile, target: TextFile, on_read: Advance | None = None) -> Iterator[Pair | None]:
    """Sentence pairs, stripped; None where a line is not UTF-8 (see `reject_invalid`).

    Files of unequal length are an error that gives both counts.
    """
    for block in read_blocks((source, target), on_read):
        sources, targets, invalid = block.sentences()
        pairs: list[Pair | None] = list(zip(sources, targets, strict=True))
        for position in invalid:
            pairs[position] = None
        yield from pairs


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


# ----------------------------------------------------------------------------------------------------- blocks


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive lines of both sides of a corpus, as bytes in which every line ends with "\\n".

    Cutting a corpus into blocks is fast; what takes time, decoding and judging lines, is left to other processes.
    """

    files: Files
    columns: tuple[int | None, int | None]  # of a TSV, from 0
    first: int  # number of pairs before it
    count: int
    data: tuple[bytes, bytes]

    def sentences(self) -> tuple[list[str], list[str], list[int]]:
        """Sentences of both sides, stripped, and positions of the pairs that are not UTF-8; these are left empty."""
        sides = [self._lines(side) for side in (0, 1)]
        try:
            source, target = (_decode(lines) for lines in sides)
        except UnicodeDecodeError:
            invalid = sorted({i for lines in sides for i, line in enumerate(lines) if not _is_utf8(line)})
            for lines, position in product(sides, invalid):
                lines[position] = b""
            source, target = (_decode(lines) for lines in sides)
            return source, target, invalid
        return source, target, []

    def head(self, count: int) -> Block:
        """Its first pairs, or all if there are fewer."""
        if count >= self.count:
            return self
        source, target = (b"".join(line + b"\n" for line in split_lines(data)[:count]) for data in self.data)
        return replace(self, count=count, data=(source, target))

    def invalid(self, position: int, advice: str) -> CorpusError:
        """The error that names file and line of a pair that is not UTF-8."""
        for side, file in enumerate(self.files):
            line = self._lines(side)[position]
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"{file.path}:{self._number(side) + position}"
                return CorpusError(f"{where}: not UTF-8 (byte 0x{line[error.start]:02x} at {error.start}); {advice}")
        raise ValueError(f"position: pair {position} is UTF-8")

    def _lines(self, side: int) -> list[bytes]:
        lines, column = split_lines(self.data[side]), self.columns[side]
        return lines if column is None else cells(lines, column, self.files[side].path, self._number(side))

    def _number(self, side: int) -> int:
        """The number of the first line in its file."""
        return self.first + 1 + isinstance(self.files[side].column, str)


def cells(lines: Iterable[bytes], column: int, path: Path, first: int) -> list[bytes]:
    """A column of lines of a TSV, of which the first is line `first` of the file."""
    found = []
    for number, line in enumerate(lines, first):
        row = line.split(b"\t")
        if len(row) <= column:
            raise CorpusError(f"{path}:{number}: {len(row)} columns, but column {column + 1} is needed")
        found.append(row[column])
    return found


def _decode(lines: list[bytes]) -> list[str]:
    """All lines at once: none contains "\\n", and no character of UTF-8 extends over one."""
    return [line.strip() for line in b"\n".join(lines).decode("utf-8").split("\n")] if lines else []


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_blocks(files: Files, on_read: Advance | None = None) -> Iterator[Block]:
    """Both sides of a corpus, in blocks; one without lines if there are none.

    Files of unequal length are an error that gives both counts.
    """
    sides = tuple(LineBuffer(file, on_read) for file in files)
    columns = (sides[0].column, sides[1].column)
    first = 0
    while True:
        count = min([side.fill() for side in sides])
        if count or not first:
            yield Block(files, columns, first, count, (sides[0].cut(count), sides[1].cut(count)))
        if not count:
            break
        first += count
    counts = [first + side.lines_left() for side in sides]
    if counts[0] != counts[1]:
        lengths = f"{files[0].path} has {counts[0]:,} lines, {files[1].path} has {counts[1]:,}"
        raise CorpusError(f"{lengths}: not parallel")


class LineBuffer:
    """Reads one side of a corpus, to be cut into blocks; only whole lines, without the header of a TSV."""

    def __init__(self, file: TextFile, on_read: Advance | None = None) -> None:
        self._chunks = _whole_lines(file.path, on_read)
        self._data, self._at = b"", 0  # what is before `_at` was cut
        self._stops: Stops = np.empty(0, dtype=np.int64)
        self.column = column_of(file, self._header) if isinstance(file.column, str) else file.column

    def _header(self) -> bytes:
        return self.cut(1).removesuffix(b"\n") if self.fill() else b""

    def fill(self) -> int:
        """Read until there is enough for a block, or the file ends. How many lines are there?"""
        chunks, lines, size = [], len(self._stops), len(self._data) - self._at
        while lines < BLOCK_LINES and size < CHUNK and (chunk := next(self._chunks, None)) is not None:
            chunks.append(chunk)
            lines, size = lines + len(chunk[1]), size + len(chunk[0])
        if chunks:
            pieces = [self._data[self._at :], *(data for data, _ in chunks)]
            starts = np.cumsum([0, *map(len, pieces)])[1:-1]
            stops = (stop + start for (_, stop), start in zip(chunks, starts, strict=True))
            self._stops = np.concatenate([self._stops - self._at, *stops])
            self._data, self._at = b"".join(pieces), 0
        return min(lines, BLOCK_LINES)

    def cut(self, count: int) -> bytes:
        """Remove so many lines, at most as many as are there."""
        start, stop = self._at, int(self._stops[count - 1]) + 1 if count else self._at
        self._stops, self._at = self._stops[count:], stop
        return self._data[start:stop]

    def lines_left(self) -> int:
        """Lines that were not cut, to the end of the file, which is read."""
        return len(self._stops) + sum(len(stops) for _, stops in self._chunks)


def column_of(file: TextFile, header: Callable[[], bytes]) -> int:
    """The position of a named column."""
    names = [name.strip().decode("utf-8", "replace") for name in header().split(b"\t")]
    if file.column not in names:
        raise CorpusError(f"{file.path}:1: no column {file.column!r}; the header has {', '.join(names)}")
    return names.index(file.column)


def read_some(file: TextFile, wanted: NDArray[np.int64]) -> Iterator[str]:
    """Some sentences of one side, by their positions in ascending order; reads no further than the last."""
    side, first = LineBuffer(file), 0
    header = isinstance(file.column, str)
    while len(wanted):
        if not (count := side.fill()):
            raise changed(file)
        here, wanted = np.split(wanted, [np.searchsorted(wanted, first + count)])
        lines = split_lines(side.cut(count))
        chosen = [lines[position - first] for position in here.tolist()]
        if side.column is not None:
            chosen = [cells([line], side.column, file.path, first + 1 + header)[0] for line in chosen]
        try:
            yield from _decode(chosen)
        except UnicodeDecodeError as error:
            raise changed(file) from error
        first += count


def changed(file: TextFile) -> CorpusError:
    """The error for text that is not what it was when it was read first."""
    return CorpusError(f"{file.path}: changed while being read; run the command again")
