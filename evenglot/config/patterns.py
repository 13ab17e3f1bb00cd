"""Path patterns such as 'train.{pair}.{lang}.gz', and the files of a direction.

{src} and {tgt} are the languages of the direction, {lang} is the language of the side, and {pair} is the name of the
corpus: src-tgt, or tgt-src if only that exists, since a corpus is stored once and used in both directions.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

from evenglot.directions import Direction
from evenglot.text_file import TextFile
from evenglot.wording import did_you_mean

Pattern = str | tuple[str, str]  # for both sides, or one for the source and one for the target
AnyPattern = TypeVar("AnyPattern", str, tuple[str, str])
Columns = tuple[int | str, int | str]  # of a TSV: numbers from 1, or names in its header, which may contain fields
Sides = tuple[TextFile, TextFile]

FIELDS = ("src", "tgt", "lang", "pair")
UNREADABLE = (".bz2", ".xz", ".lzma", ".zip", ".7z", ".rar", ".tar", ".tgz")


def check_pattern(pattern: AnyPattern) -> AnyPattern:
    """Return the pattern; ValueError if it cannot name both sides of every direction."""
    for path in [pattern] if isinstance(pattern, str) else pattern:
        check_fields(path, FIELDS)
        suffix = next((suffix for suffix in UNREADABLE if path.lower().endswith(suffix)), None)
        if suffix:
            raise ValueError(f"cannot read {suffix}; expected plain text, .gz or .zst")
    if not isinstance(pattern, str):
        if any(is_tsv(path) for path in pattern):
            raise ValueError("a TSV holds both sides; give one path, not two")
    elif is_tsv(pattern) and "{lang}" in pattern:
        raise ValueError("a TSV holds both sides, so its path cannot depend on {lang}")
    elif not is_tsv(pattern) and "{lang}" not in pattern:
        raise ValueError("expected {lang} in the path, for the language of each side, or two paths, or a .tsv for both")
    return pattern


def check_fields(text: str, known: tuple[str, ...]) -> str:
    """Return the text; ValueError if it is empty or has an unknown {field}."""
    if not text.strip():
        raise ValueError("expected text, got nothing")
    for field in re.findall(r"\{([^{}]*)\}", text):
        if field not in known:
            raise ValueError(f"unknown field {{{field}}}; {did_you_mean(field, known)}")
    return text


def is_tsv(path: str) -> bool:
    """Whether this file holds both sides, in columns."""
    return path.removesuffix(".gz").removesuffix(".zst").endswith(".tsv")


def find(pattern: Pattern, direction: Direction, columns: Columns | None = None) -> Sides:
    """Source and target of a direction; of the two names of {pair}, the one for which more files exist."""
    stored = [direction, direction.reverse()] if "{pair}" in "".join(pattern) else [direction]
    return min((_sides(pattern, direction, pair, columns) for pair in stored), key=lambda sides: len(missing(sides)))


def missing(sides: Sides) -> list[Path]:
    """The files that do not exist."""
    return sorted({side.path for side in sides if not os.path.isfile(side.path)})


def _sides(pattern: Pattern, direction: Direction, stored: Direction, columns: Columns | None) -> Sides:
    """Source and target for a corpus stored under the name `stored`: the direction itself or its reverse."""
    names = {"src": direction.src, "tgt": direction.tgt, "pair": stored.name}
    if isinstance(pattern, str) and is_tsv(pattern):
        path = Path(_fill(pattern, names))
        names = {"src": stored.src, "tgt": stored.tgt}
        column = {
            language: position - 1 if isinstance(position, int) else _fill(position, names)
            for language, position in zip((stored.src, stored.tgt), columns or (1, 2), strict=True)
        }
        return TextFile(path, column[direction.src]), TextFile(path, column[direction.tgt])
    source, target = (pattern, pattern) if isinstance(pattern, str) else pattern
    return (
        TextFile(Path(_fill(source, {**names, "lang": direction.src}))),
        TextFile(Path(_fill(target, {**names, "lang": direction.tgt}))),
    )


def _fill(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda field: values.get(field[1], field[0]), text)
