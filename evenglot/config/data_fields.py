"""Types of the values in the section `data`: path patterns, columns, codes and names."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from evenglot.config.errors import show
from evenglot.config.patterns import Columns, Pattern, check_entry, check_fields, each_path, entries
from evenglot.config.section import Context, absolute
from evenglot.directions import CORPUS, check_code
from evenglot.text_file import DATASET

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


def _pattern(value: Any, info: ValidationInfo) -> Any:
    """One path pattern or several, made absolute, so that a saved configuration works in any folder."""
    if not _is_pattern(value):
        raise ValueError(
            f"expected a path, such as 'train.{{pair}}.{{lang}}.gz', two paths, or a list of these; got {show(value)}"
        )
    pattern = each_path(value, lambda path: path + DATASET if path.endswith("/") else path)
    for entry in entries(pattern):
        check_entry(entry)
    return each_path(pattern, lambda path: _absolute(path, info))


def _is_pattern(value: Any) -> bool:
    def is_list(part: Any) -> bool:
        return isinstance(part, list | tuple) and len(part) > 0

    def is_pair(part: Any) -> bool:
        return is_list(part) and len(part) == 2 and all(isinstance(path, str) for path in part)

    return isinstance(value, str) or (is_list(value) and all(isinstance(part, str) or is_pair(part) for part in value))


def _absolute(pattern: str, info: ValidationInfo) -> str:
    folder = str(Context.of(info).folder)
    marks = [mark for mark in "{}*?" if mark in folder]
    if marks and not os.path.isabs(os.path.expanduser(pattern)):
        raise ValueError(f"{folder}: this folder has {marks[0]} in its name, which has a meaning in paths; rename it")
    return absolute(pattern, info)


def _columns(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2:
        if all(isinstance(column, str) for column in value):
            return tuple(check_fields(column, ("src", "tgt")) for column in value)
        if all(type(column) is int and column >= 1 for column in value):
            return tuple(value)
    raise ValueError(f"expected two columns, such as ['{{src}}', '{{tgt}}'] or [1, 2] (from 1), got {show(value)}")


def _file_code(value: str) -> str:
    if not value or any(mark in value for mark in "/{}*?"):
        raise ValueError(f"expected a code as in the names of files or columns, got {value!r}")
    return value


def _corpus_name(value: str) -> str:
    if not CORPUS.fullmatch(value):
        raise ValueError(f"expected a name of letters, digits and underscores, such as bt, got {value!r}")
    return value


def as_list(value: Any) -> Any:
    """A single value becomes a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Code = Annotated[str, AfterValidator(check_code)]
Codes = Annotated[tuple[Code, ...], BeforeValidator(as_list), Field(min_length=1, strict=False)]
FileCode = Annotated[str, AfterValidator(_file_code)]
PathPattern = Annotated[Pattern, BeforeValidator(_pattern)]
ColumnPair = Annotated[Columns, BeforeValidator(_columns)]
CorpusName = Annotated[str, AfterValidator(_corpus_name)]
