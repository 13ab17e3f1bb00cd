"""Line-exact readers of parallel text, pair by pair or in blocks: two files side by side, or one that holds both sides.

All formats become lines of bytes (lines.py). Those of TSV and JSONL are rows, of which other processes take the cells
(cells.py); from Parquet and Arrow (arrow.py) and from a zip (zipped.py), each side is read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.arrow import arrow_files
from evenglot.corpus.cells import Column, cells, column_of
from evenglot.corpus.drift import drift
from evenglot.corpus.lines import CHUNK, Advance, Stops, split_lines, whole_lines
from evenglot.text_file import IN_LINES, Sides, TextFile
from evenglot.text_file import CorpusError as CorpusError
from evenglot.wording import counted

BLOCK_LINES = 8192

Pair = tuple[str, str]


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
        [np.diff(stops, prepend=-1) for _, stops in whole_lines(file, None)] or [np.empty(0, np.int64)]
    )


class LineBuffer:
    """Reads one side of a corpus, to be cut into blocks; only whole lines, without the header of a TSV."""

    def __init__(self, file: TextFile, on_read: Advance | None = None) -> None:
        self._chunks = whole_lines(file, on_read)
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
