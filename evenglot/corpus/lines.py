"""The lines of a file as bytes, decompressed: plain text, .gz or .zst, or one side of a table or of a zip.

Only "\\n" ends a line. Python's text mode would also break lines at U+2028, form feeds and lone carriage returns, which
real corpora contain, and source and target would no longer be aligned.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from evenglot.corpus.arrow import read_cells
from evenglot.corpus.zipped import read_member
from evenglot.text_file import WITH_PYARROW, CorpusError, TextFile

CHUNK = 1 << 20
NEWLINE = 10
LONGEST_LINE = 1 << 20  # bytes; real sentences are shorter, binary files and lost line ends are not
ZSTD_CHUNK = 1 << 11  # a chunk can expand 30,000 times
BOM = b"\xef\xbb\xbf"
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
    for data, _ in whole_lines(TextFile(path), on_read):
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


def whole_lines(file: TextFile, on_read: Advance | None) -> Iterator[tuple[bytes, Stops]]:
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
