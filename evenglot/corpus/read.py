"""Line-exact readers of parallel text: two files side by side, plain, .gz or .zst, or one file that holds both sides.

All formats become lines of bytes. Those of TSV and JSONL are rows, of which other processes take the cells (cells.py);
from Parquet and Arrow (arrow.py) and from a zip (zipped.py), each side is read alone.

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
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.arrow import arrow_files, read_cells
from evenglot.corpus.cells import Column, cells, column_of
from evenglot.corpus.drift import drift
from evenglot.corpus.zipped import read_member
from evenglot.text_file import IN_LINES, WITH_PYARROW, Sides, TextFile
from evenglot.text_file import CorpusError as CorpusError
from evenglot.wording import counted

CHUNK = 1 << 20
BLOCK_LINES = 8192
NEWLINE = 10
LONGEST_LINE = 1 << 20  # bytes; real sentences are shorter, binary files and lost line ends are not
ZSTD_CHUNK = 1 << 11  # a chunk can expand 30,000 times
BOM = b"\xef\xbb\xbf"

Pair = tuple[str, str]
Stops = NDArray[np.int64]  # positions of "\n"
Advance = Callable[[int], object]  # called with the number of bytes read


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

    def __getattr__(self, name: str) -> Any:  # seek and tell, for a zip
        return getattr(self._file, name)


def read_lines(path: Path, on_read: Advance | None = None) -> Iterator[bytes]:
    """The lines of a file as bytes, without "\\n" and byte order mark. The last line needs no "\\n"."""
    for data, _ in _whole_lines(TextFile(path), on_read):
        yield from split_lines(data)


def split_lines(data: bytes) -> list[bytes]:
    """The lines of a text in which every line ends with "\\n"."""
    return data[:-1].split(b"\n") if data else []


def _chunks(file: TextFile, on_read: Advance | None) -> Iterator[bytes]:
    """A side of a corpus in chunks: the lines of a text, TSV or JSONL file, or the cells of other formats as lines."""
    if file.kind in WITH_PYARROW:
        yield from read_cells(file, on_read)
    elif file.kind == "zip":
        with file.path.open("rb") as raw:
            yield from read_member(file, cast(BinaryIO, raw if on_read is None else _Counted(raw, on_read)), CHUNK)
    else:
        yield from read_chunks(file.path, on_read)


def _whole_lines(file: TextFile, on_read: Advance | None) -> Iterator[tuple[bytes, Stops]]:
    """A file in chunks of whole lines, and where these lines end. A "\\n" is added to a last line without one."""
    number = 0
    rest = b""
    try:
        for chunk in _chunks(file, on_read):
            whole, newline, after = chunk.rpartition(b"\n")
            if newline:
                data = rest + whole + newline
                data, rest = (data if number else data.removeprefix(BOM)), after
                stops = _stops(data, file, number)
                number += len(stops)
                yield data, stops
            else:
                rest += chunk
            if len(rest) > LONGEST_LINE:
                raise _endless(file, number + 1)
    except FileNotFoundError as error:
        raise CorpusError(f"{file.path}: no such file") from error
    except (OSError, EOFError, zlib.error) as error:  # gzip's own errors are OSErrors
        raise CorpusError(f"{file}:{number + 1}: cannot be read: {_reason(error)}") from error
    rest = rest if number else rest.removeprefix(BOM)
    if rest:
        yield rest + b"\n", np.array([len(rest)])


def _stops(data: bytes, file: TextFile, number: int) -> Stops:
    """Where the lines end; an error if one is too long. `number`: of lines before these."""
    stops = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == NEWLINE)
    if len(data) > LONGEST_LINE:
        endless = np.diff(stops, prepend=-1) > LONGEST_LINE + 1
        if endless.any():
            raise _endless(file, number + 1 + int(np.argmax(endless)))
    return stops


def _endless(file: TextFile, number: int) -> CorpusError:
    return CorpusError(f"{file}:{number}: a line of more than {LONGEST_LINE:,} bytes; is this a text file?")


def _reason(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "the compressed file is truncated"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).lower()


def read_column(file: TextFile, on_read: Advance | None = None) -> Iterator[bytes]:
    """One side of a corpus, line by line: the whole line, or its cell in a table."""
    side, number = LineBuffer(file, on_read), 1 + file.headers
    while count := side.fill():
        lines = split_lines(side.cut(count))
        yield from lines if side.column is None else cells(lines, [side.column], file, number)[0]
        number += count


def read_pairs(source: TextFile, target: TextFile, on_read: Advance | None = None) -> Iterator[Pair | None]:
    """Sentence pairs, stripped; None where a line is not UTF-8 (see `reject_invalid`).

    Files of unequal length are an error that gives both counts.
    """
    for block in read_blocks([(source, target)], on_read):
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
                    return f"{file}:{at + file.headers}: not UTF-8 (byte 0x{line[error.start]:02x} at {error.start})"
                break
    return f"{source}:{number}: not UTF-8"


# ----------------------------------------------------------------------------------------------------- blocks


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive lines of both sides of a corpus, as bytes in which every line ends with "\\n".

    Cutting a corpus into blocks is fast; what takes time, decoding and judging lines, is left to other processes.
    """

    files: Sides
    columns: tuple[Column | None, Column | None]  # of a TSV, from 0, or of JSONL
    first: int  # number of pairs before it, in all files
    line: int  # number of its first line in its files, from 1, without headers
    count: int
    data: tuple[bytes, bytes]

    def sentences(self) -> tuple[list[str], list[str], list[int]]:
        """Sentences of both sides, stripped, and positions of the pairs that are not UTF-8; these are left empty."""
        sides = self._sides()
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
        for file, lines in zip(self.files, self._sides(), strict=True):
            line = lines[position]
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"{file}:{self.line + file.headers + position}"
                return CorpusError(f"{where}: not UTF-8 (byte 0x{line[error.start]:02x} at {error.start}); {advice}")
        raise ValueError(f"position: pair {position} is UTF-8")

    def _sides(self) -> list[list[bytes]]:
        """The lines of both sides, or their cells."""
        if not self.count:
            return [[], []]
        if _share_lines(self.files):
            columns = [column for column in self.columns if column is not None]
            return cells(split_lines(self.data[0]), columns, self.files[0], self.line + self.files[0].headers)
        found = []
        for file, column, data in zip(self.files, self.columns, self.data, strict=True):
            lines = split_lines(data)
            found.append(lines if column is None else cells(lines, [column], file, self.line + file.headers)[0])
        return found


def _share_lines(files: Sides) -> bool:
    """Are both sides columns of the same lines? Then these are read once."""
    source, target = files
    return source.path == target.path and source.kind in IN_LINES and source.headers == target.headers


def _decode(lines: list[bytes]) -> list[str]:
    """All lines at once: none contains "\\n", and no character of UTF-8 extends over one."""
    return [line.strip() for line in b"\n".join(lines).decode("utf-8").split("\n")] if lines else []


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_blocks(corpus: Iterable[Sides], on_read: Advance | None = None) -> Iterator[Block]:
    """Both sides of a corpus, file by file, in blocks; one without lines if there are none.

    Files of unequal length are an error that gives both counts.
    """
    first = 0
    for files in corpus:
        for block in _blocks(files, first, on_read):
            first += block.count
            yield block
    if not first:
        yield Block(files, (None, None), 0, 1, 0, (b"", b""))


def _blocks(files: Sides, first: int, on_read: Advance | None) -> Iterator[Block]:
    """Both sides of a file or pair of files, in blocks; so many pairs are before it."""
    sides = [LineBuffer(file, on_read) for file in files[: 1 if _share_lines(files) else 2]]
    columns = (sides[0].column_of(files[0]), sides[-1].column_of(files[1]))
    pairs = 0
    while count := min(side.fill() for side in sides):
        data = [side.cut(count) for side in sides]
        yield Block(files, columns, first + pairs, pairs + 1, count, (data[0], data[-1]))
        pairs += count
    counts = [pairs + side.lines_left() for side in sides]
    if counts[0] != counts[-1]:
        lines = f"{files[0]} has {counted(counts[0], 'line')}, {files[1]} has {counts[-1]:,}"
        raise CorpusError(f"{lines}: not parallel; {_advice(files)}")


def _advice(files: Sides) -> str:
    """Where files of unequal length probably drift apart, and what to do."""
    shorter = "restore the missing lines, or remove those without a translation"
    if any(file.kind in IN_LINES for file in files):  # lengths of rows tell nothing of one column
        return shorter
    place = drift(*(_line_lengths(file) for file in files))
    if place is None:
        return shorter
    return f"they probably drift apart near line {place + 1:,}: compare both there; {shorter}"


def _line_lengths(file: TextFile) -> NDArray[np.int64]:
    """The length of every line in bytes, with its end."""
    return np.concatenate(
        [np.diff(stops, prepend=-1) for _, stops in _whole_lines(file, None)] or [np.empty(0, np.int64)]
    )


class LineBuffer:
    """Reads one side of a corpus, to be cut into blocks; only whole lines, without the header of a TSV."""

    def __init__(self, file: TextFile, on_read: Advance | None = None) -> None:
        self._chunks = _whole_lines(file, on_read)
        self._data, self._at = b"", 0  # what is before `_at` was cut
        self._stops: Stops = np.empty(0, dtype=np.int64)
        self._header = self.cut(1).removesuffix(b"\n") if file.headers and self.fill() else b""
        self.column = self.column_of(file)

    def column_of(self, file: TextFile) -> Column | None:
        """The column of its lines that has one side; None if they have nothing else."""
        if file.headers:
            return column_of(file, self._header)
        return file.column if file.kind in IN_LINES else None

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


def read_some(files: Iterable[TextFile], wanted: NDArray[np.int64]) -> Iterator[str]:
    """Some sentences of one side of a corpus, by their positions in ascending order; reads no further than the last."""
    first = 0
    for file in files:
        side = LineBuffer(file)
        while len(wanted) and (count := side.fill()):
            here, wanted = np.split(wanted, [np.searchsorted(wanted, first + count)])
            lines = split_lines(side.cut(count))
            chosen = [lines[position - first] for position in here.tolist()]
            try:
                sentences = _decode(chosen if side.column is None else cells(chosen, [side.column], file, 1)[0])
            except ValueError as error:  # it was sound when it was scanned
                raise changed(file) from error
            yield from sentences
            first += count
    if len(wanted):
        raise changed(file)


def changed(file: TextFile) -> CorpusError:
    """The error for text that is not what it was when it was read first."""
    return CorpusError(f"{file}: changed while being read; run the command again")


def paths_of(corpus: Iterable[Sides]) -> list[Path]:
    """All files of a corpus, each once."""
    found: dict[Path, None] = {}
    for file in (file for files in corpus for file in files):
        found.update(dict.fromkeys([file.path, *(arrow_files(file.path) if file.kind == "dataset" else [])]))
    return list(found)
