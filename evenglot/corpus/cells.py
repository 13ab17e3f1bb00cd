"""The cells of tables: where a column is, and the columns of TSV and JSONL, in which a line is a row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenglot.text_file import CorpusError, TextFile
from evenglot.wording import some

NESTED = "translation"  # Hugging Face's name for an object with all languages

Column = int | str


def cells(lines: Iterable[bytes], columns: Sequence[Column], file: TextFile, first: int) -> list[list[bytes]]:
    """Columns of some lines of a TSV or JSONL file, of which the first is line `first` of the file."""
    found: list[list[bytes]] = [[] for _ in columns]
    cells_of = _json_cells if file.kind == "jsonl" else _tsv_cells
    for number, line in enumerate(lines, first):
        for column, cell in zip(found, cells_of(line, columns, f"{file}:{number}"), strict=True):
            column.append(cell)
    return found


def _tsv_cells(line: bytes, columns: Sequence[Any], place: str) -> list[bytes]:
    row = line.split(b"\t")
    if len(row) <= max(columns):
        raise CorpusError(f"{place}: {len(row)} columns, but column {max(columns) + 1} is needed")
    return [row[column] for column in columns]


def column_of(file: TextFile, header: bytes) -> int:
    """The position of a named column of a TSV."""
    names = [name.strip().decode("utf-8", "replace") for name in header.split(b"\t")]
    if file.column not in names:
        raise CorpusError(f"{file}:1: no column {file.column!r}; the header has {', '.join(names)}")
    return names.index(file.column)


def _json_cells(line: bytes, columns: Sequence[Any], place: str) -> list[bytes]:
    """Values of an object; the line itself for each if it is not UTF-8, so that it is treated as such text is."""
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return [line for _ in columns]
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise CorpusError(f"{place}: expected an object with the languages as keys, got {_type(row)}")
    return [_json_cell(row, column, place) for column in columns]


def _json_cell(row: dict[str, Any], column: str, place: str) -> bytes:
    value = row.get(column)
    if not isinstance(value, str):
        value = row
        for name in path_of(column, row, place):
            value = value[name]
    if not isinstance(value, str):
        raise CorpusError(f"{place}: {column!r} is {_type(value)}, not text")
    return value.replace("\n", " ").encode("utf-8", "surrogatepass")  # half a surrogate pair is not UTF-8 either


def _type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def path_of(column: str, names: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Where a column is among nested names: at the top, in `translation`, or at a path with dots."""
    paths = [(column,), (NESTED, column), tuple(column.split("."))]
    path = next((path for path in paths if _leads(path, names)), None)
    if path is None:
        raise CorpusError(f"{place}: no column {column!r}; there is {some(_columns(names)) or 'none'}")
    return path


def _leads(path: Sequence[str], names: Any) -> bool:
    for name in path:
        if not isinstance(names, Mapping) or name not in names:
            return False
        names = names[name]
    return True


def _columns(names: Mapping[str, Any]) -> list[str]:
    """All columns, those inside others with dots."""
    found = []
    for name, inside in names.items():
        found += [f"{name}.{other}" for other in inside] if isinstance(inside, Mapping) else [name]
    return [repr(name) for name in found]
