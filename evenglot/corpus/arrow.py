"""One side of a corpus in a Parquet file, an Arrow file, or a dataset that Hugging Face's `datasets` saved to disk.

A column is read in batches and turned into lines of bytes; pyarrow, of the extra `parquet`, is imported when needed.
A dataset folder is read without `datasets`: its `state.json` lists Arrow files, and nothing in it is executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenglot.corpus.cells import path_of
from evenglot.corpus.zipped import EXPANSION, SMALL
from evenglot.extras import missing
from evenglot.reading import read_text
from evenglot.text_file import CorpusError, TextFile

BATCH_ROWS = 8192
BATCH_BYTES = 1 << 24  # of text in memory at once
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # without it, an Arrow stream was cut between two batches
MAGIC = b"ARROW1"  # of Arrow files that are not streams

Advance = Callable[[int], object]


def arrow_files(state: Path) -> list[Path]:
    """The files of a dataset folder, in their order, from its state.json."""
    try:
        content = json.loads(read_text(state))
        names = [entry["filename"] for entry in content["_data_files"]]
        moved = content.get("_indices_data_files")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorpusError(f"{state}: damaged; expected what `save_to_disk` of Hugging Face datasets writes") from error
    if moved:
        raise CorpusError(f"{state}: rows are selected by indices; save the dataset with a newer version of `datasets`")
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise CorpusError(f"{state}: {name!r} is not the name of a file in this folder")
        if not (state.parent / name).is_file():
            raise CorpusError(f"{state.parent / name}: no such file, but {state.name} lists it")
    return [state.parent / name for name in names]


def read_cells(file: TextFile, on_read: Advance | None = None) -> Iterator[bytes]:
    """The cells of a column as lines, in chunks. A line break inside a cell becomes a space."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise missing("parquet", "pyarrow") from None
    rows = 0
    for path in arrow_files(file.path) if file.kind == "dataset" else [file.path]:
        batches = _parquet(file, path, on_read) if file.kind == "parquet" else _arrow(file, path, on_read)
        with _errors(path):
            for column in batches:
                for part in _parts(column):
                    yield _lines(part, file, rows)
                    rows += len(part)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Errors of pyarrow, in one line."""
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:  # lengths and names, damaged
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise CorpusError(f"{path}: damaged, truncated or in another format ({reason})") from error


def _parquet(file: TextFile, path: Path, on_read: Advance | None) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as raw, parquet.ParquetFile(raw, page_checksum_verification=True) as table:
        where = _find(file, path, table.schema_arrow)
        report, size = _Progress(on_read), path.stat().st_size
        done, rows = 0, table.metadata.num_rows
        for group in range(table.num_row_groups):
            at_once = _rows_at_once(table, group, where, path)
            for batch in table.iter_batches(at_once, [group], columns=[".".join(where)], use_threads=False):
                yield _column(batch, where)
                done += len(batch)
                report(size * done // max(rows, 1))
        if done != rows:
            raise pyarrow.ArrowInvalid(f"{done:,} rows instead of {rows:,}")


def _rows_at_once(table: Any, group: int, where: tuple[str, ...], path: Path) -> int:
    """How many rows of a group fit in memory, though each may be a long sentence that the file contains once."""
    from pyarrow import parquet

    name, about = ".".join(where), table.metadata.row_group(group)
    column = next(each for each in map(about.column, range(about.num_columns)) if each.path_in_schema == name)
    packed, text = column.total_compressed_size, column.total_uncompressed_size
    if max(text, column.num_values) > max(SMALL, EXPANSION * packed):
        size = f"{packed:,} bytes that expand to {text:,} and {column.num_values:,} rows"
        raise CorpusError(f"{path}: {size}, which text does not; convert it to text files if you trust it")
    longest = text if "DELTA_BYTE_ARRAY" in column.encodings else 1
    if column.has_dictionary_page:
        with path.open("rb") as raw, parquet.ParquetFile(raw, metadata=table.metadata, read_dictionary=[name]) as again:
            first = next(again.iter_batches(1, [group], columns=[name], use_threads=False), None)
            if first is not None:
                longest = max(longest, _longest(_column(first, where)))
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, longest)))


def _longest(column: Any) -> int:
    """Bytes of the longest word in the dictionary of a column."""
    from pyarrow import compute, types

    words = column.dictionary if types.is_dictionary(column.type) else column
    return int(compute.max(compute.binary_length(words)).as_py() or 1)


def _arrow(file: TextFile, path: Path, on_read: Advance | None) -> Iterator[Any]:
    import pyarrow
    from pyarrow import ipc

    with path.open("rb") as raw:
        is_file = raw.read(len(MAGIC)) == MAGIC
        raw.seek(0 if is_file else max(0, path.stat().st_size - len(END_OF_STREAM)))
        if not is_file and raw.read() != END_OF_STREAM:
            raise pyarrow.ArrowInvalid("the end of the stream is missing")
        raw.seek(0)
        table: Any = ipc.open_file(raw) if is_file else ipc.open_stream(raw)
        where = _find(file, path, table.schema)
        report = _Progress(on_read)
        batches = map(table.get_batch, range(table.num_record_batches)) if is_file else table
        for batch in batches:
            for start in range(0, len(batch), BATCH_ROWS):
                yield _column(batch.slice(start, BATCH_ROWS), where)
            report(raw.tell())


class _Progress:
    """Reports the position in a file, halved, because the other side of the corpus is in the same file."""

    def __init__(self, on_read: Advance | None) -> None:
        self._on_read, self._reported = on_read, 0

    def __call__(self, position: int) -> None:
        if self._on_read is not None and position // 2 > self._reported:
            self._on_read(position // 2 - self._reported)
            self._reported = position // 2


def _find(file: TextFile, path: Path, schema: Any) -> tuple[str, ...]:
    """Where the column is; it must be of text."""
    from pyarrow import types

    def nested(fields: Any) -> dict[str, Any]:
        return {field.name: nested(field.type) if types.is_struct(field.type) else None for field in fields}

    where = path_of(str(file.column), nested(schema), str(path))
    kind = schema
    for name in where:
        positions = kind.get_all_field_indices(name)
        if len(positions) > 1:
            raise CorpusError(f"{path}: {len(positions)} columns are called {name!r}")
        kind = kind.field(positions[0]).type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)):
        raise CorpusError(f"{path}: column {'.'.join(where)!r} is of type {kind}, not text")
    return where


def _column(batch: Any, where: tuple[str, ...]) -> Any:
    from pyarrow import compute

    batch.validate()
    column = batch.column(where[0])
    for name in where[1:]:
        column = compute.struct_field(column, name)  # null where what is around it is null
    return column


def _parts(column: Any) -> Iterator[Any]:
    """The cells in parts that fit in memory, though a long sentence of a dictionary may be there many times."""
    from pyarrow import types

    if not types.is_dictionary(column.type):
        yield column
        return
    column.validate(full=True)
    at_once = max(1, BATCH_BYTES // max(1, _longest(column)))
    for start in range(0, len(column), at_once):
        yield column.slice(start, at_once).dictionary_decode()


def _lines(column: Any, file: TextFile, rows: int) -> bytes:
    """The cells, each ended by a line break; `rows` are before them."""
    import pyarrow
    from pyarrow import compute, types

    if not len(column):
        return b""
    if column.null_count:
        row = rows + 1 + column.is_null().to_pylist().index(True)
        raise CorpusError(f"{file}:{row}: {file.column!r} is null, not text")
    cells = column.cast(pyarrow.large_binary() if types.is_large_string(column.type) else pyarrow.binary())
    cells.validate(full=True)  # whether a damaged file points outside itself; as text, it would have to be UTF-8
    text = compute.replace_substring(cells.cast(pyarrow.large_binary()), "\n", " ")
    together = pyarrow.LargeListArray.from_arrays([0, len(text)], text)
    (joined,) = compute.binary_join(together, pyarrow.scalar(b"\n", text.type)).to_pylist()
    return bytes(joined + b"\n")
