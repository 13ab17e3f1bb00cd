"""The cells of tables: where a column is, and the columns of TSV and JSONL, in which a line is a row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenglot.text_file import CorpusError, TextFile
from evenglot.wording import some

NESTED = "translation"  # Hugging Face's name for an object with all languages

Column = int | str


def cells(lines: Iterable[bytes], columns: Sequence[Any], file: TextFile, first: int) -> list[list[bytes]]:
    """Columns of some lines of a TSV or JSONL file, of which the first is line `first` of the file."""
    if file.kind == "jsonl":
        rows = [_json_cells(line, columns, file, number) for number, line in enumerate(lines, first)]
        return [[row[side] for row in rows] for side in range(len(columns))]
    rows = [line.split(b"\t") for line in lines]
    width = max(columns) + 1
    for number, row in enumerate(rows, first):
        if len(row) < width:
            raise CorpusError(f"{file}:{number}: {len(row)} columns, but column {width} is needed")
    return [[row[column] for row in rows] for column in columns]


def column_of(file: TextFile, header: bytes) -> int:
    """The position of a named column of a TSV."""
    names = [name.strip().decode("utf-8", "replace") for name in header.split(b"\t")]
    if file.column not in names:
        raise CorpusError(f"{file}:1: no column {file.column!r}; the header has {', '.join(names)}")
    return names.index(file.column)


def _json_cells(line: bytes, columns: Sequence[str], file: TextFile, number: int) -> list[bytes]:
    """Values of an object; the line itself for each if it is not UTF-8, so that it is treated as such text is."""
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return [line for _ in columns]
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{file}:{number}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise CorpusError(f"{file}:{number}: expected an object with the languages as keys, got {_type(row)}")
    texts = [_text(row, column, file, number) for column in columns]
    return [text.replace("\n", " ").encode("utf-8", "surrogatepass") for text in texts]  # half a pair is not UTF-8


def _text(row: dict[str, Any], column: str, file: TextFile, number: int) -> str:
    """The text of a column, which can be nested; the usual cases first."""
    value = row.get(column)
    if column not in row and isinstance(inside := row.get(NESTED), dict):
        value = inside.get(column)
    if isinstance(value, str):
        return value
    value, place = row, f"{file}:{number}"
    for name in path_of(column, row, place):
        value = value[name]
    if not isinstance(value, str):
        raise CorpusError(f"{place}: {column!r} is {_type(value)}, not text")
    return value


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
