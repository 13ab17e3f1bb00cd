"""Path patterns such as 'train.{pair}.{lang}.gz', and the files of a direction.

{src} and {tgt} are the languages of the direction, {lang} is the language of the side, and {pair} is the name of the
corpus: src-tgt, or tgt-src if only that exists, since a corpus is stored once and used in both directions. * and ? are
wildcards: the files of both sides belong together where these stand for the same.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from evenglot.directions import Direction
from evenglot.text_file import DATASET, Corpus, Sides, TextFile, kind_of
from evenglot.wording import did_you_mean

Entry = str | tuple[str, str]  # for both sides, or one for the source and one for the target
Pattern = str | tuple[Entry, ...]  # one entry or several; for what two paths mean, see `entries`
Columns = tuple[int | str, int | str]  # of tables: numbers from 1, or names, which may contain fields
Codes = Mapping[str, str]  # the names of languages in files, where they differ

FIELDS = ("src", "tgt", "lang", "pair")
UNREADABLE = (".bz2", ".xz", ".lzma", ".7z", ".rar", ".tar", ".tgz")
WILDCARD = re.compile(r"[*?]")
BOTH = ".tsv, .jsonl, .parquet, .zip, or a dataset folder, with / at the end"


def entries(pattern: Pattern) -> tuple[Entry, ...]:
    """The parts of a pattern. Two paths are source and target, unless each of them names both sides."""
    if isinstance(pattern, str):
        return (pattern,)
    match pattern:
        case (str() as source, str() as target) if not (_is_whole(source) and _is_whole(target)):
            return ((source, target),)
    return pattern


def each_path(pattern: Pattern, change: Callable[[str], str]) -> Pattern:
    """The pattern with every path changed."""
    if isinstance(pattern, str):
        return change(pattern)
    return tuple(change(part) if isinstance(part, str) else (change(part[0]), change(part[1])) for part in pattern)


def paths_in(pattern: Pattern) -> list[str]:
    """All paths of a pattern."""
    return [path for entry in entries(pattern) for path in ([entry] if isinstance(entry, str) else entry)]


def _is_whole(path: str) -> bool:
    """Does a path name both sides?"""
    return "{lang}" in path or holds_both(path)


def holds_both(path: str) -> bool:
    """Does this file hold both sides?"""
    return kind_of(path) != "text"


def check_entry(entry: Entry) -> None:
    """ValueError if it cannot name both sides of every direction."""
    paths = [entry] if isinstance(entry, str) else entry
    for path in paths:
        check_fields(path, FIELDS)
        suffix = next((suffix for suffix in UNREADABLE if path.lower().endswith(suffix)), None)
        if suffix:
            raise ValueError(
                f"cannot read {suffix}; expected text (plain, .gz or .zst), or one file for both sides: {BOTH}"
            )
        if "**" in path:
            raise ValueError("** is no wildcard; write one * for each folder")
        if holds_both(path) and len(paths) == 2:
            raise ValueError(f"{os.path.basename(path)} holds both sides; give one path, not two")
        if holds_both(path) and "{lang}" in path:
            raise ValueError("a file that holds both sides cannot depend on {lang}")
    if isinstance(entry, str):
        if not _is_whole(entry):
            wanted = "expected {lang} in the path, for the language of each side, or two paths, or one file for both: "
            raise ValueError(wanted + BOTH)
    elif len({tuple(WILDCARD.findall(path)) for path in entry}) == 2:
        raise ValueError("expected the same wildcards in both paths, in the same order")


def check_fields(text: str, known: tuple[str, ...]) -> str:
    """Return the text; ValueError if it is empty or has an unknown {field}."""
    if not text.strip():
        raise ValueError("expected text, got nothing")
    for field in re.findall(r"\{([^{}]*)\}", text):
        if field not in known:
            raise ValueError(f"unknown field {{{field}}}; {did_you_mean(field, known)}")
    return text


def find(pattern: Pattern, direction: Direction, columns: Columns | None = None, codes: Codes | None = None) -> Corpus:
    """Source and target of a direction, part by part; of the two names of {pair}, the one for which more files exist.

    A wildcard for which there is no file remains, as the name of a missing file.
    """
    found: list[Sides] = []
    for entry in entries(pattern):
        stored = [direction, direction.reverse()] if "{pair}" in "".join(entry) else [direction]
        ways = (_sides(entry, direction, pair, columns, codes or {}) for pair in stored)
        found += min(ways, key=lambda parts: len(missing(parts)))
    return tuple(found)


def missing(corpus: Iterable[Sides]) -> list[Path]:
    """The files that do not exist."""
    return sorted({side.path for sides in corpus for side in sides if not os.path.isfile(side.path)})


def missing_folder(path: Path) -> Path | None:
    """The outermost folder of this path that does not exist, if there is one."""
    return next((folder for folder in reversed(path.parents) if not folder.exists()), None)


def _sides(entry: Entry, direction: Direction, stored: Direction, columns: Columns | None, codes: Codes) -> list[Sides]:
    """Source and target for a corpus stored under the name `stored`: the direction itself or its reverse."""

    def code(language: str) -> str:
        return codes.get(language, language)

    names = {"src": code(direction.src), "tgt": code(direction.tgt), "pair": f"{code(stored.src)}-{code(stored.tgt)}"}
    if isinstance(entry, str) and holds_both(entry):
        kind = kind_of(entry)
        order = {"src": code(stored.src), "tgt": code(stored.tgt)}
        column = {
            language: position - 1 if isinstance(position, int) else fill(position, order)
            for language, position in zip(
                (stored.src, stored.tgt), columns or ((1, 2) if kind == "tsv" else ("{src}", "{tgt}")), strict=True
            )
        }
        return [
            (TextFile(Path(path), column[direction.src]), TextFile(Path(path), column[direction.tgt]))
            for (path,) in _expand([fill(entry, names)])
        ]
    source, target = (entry, entry) if isinstance(entry, str) else entry
    paths = [fill(source, {**names, "lang": names["src"]}), fill(target, {**names, "lang": names["tgt"]})]
    return [(TextFile(Path(one)), TextFile(Path(other))) for one, other in _expand(paths)]


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with these values of its fields."""
    return re.sub(r"\{(\w+)\}", lambda field: values.get(field[1], field[0]), text)


# -------------------------------------------------------------------------------------------------- wildcards


def _expand(paths: list[str]) -> list[list[str]]:
    """The paths for everything that their wildcards stand for, on either side, sorted; without any, the paths."""
    if not WILDCARD.search(paths[0]):
        return [paths]
    known = sorted({parts for path in paths for parts in _matches(path)})
    return [[_replace(path, parts) for path in paths] for parts in known] or [paths]


def _matches(path: str) -> list[tuple[str, ...]]:
    """What the wildcards stand for in each file that matches."""
    form = re.compile("".join({"*": "([^/]*)", "?": "([^/])"}.get(c, re.escape(c)) for c in path), re.DOTALL)
    found = glob.iglob(path.replace("[", "[[]"))  # brackets mean themselves
    return [match.groups() for name in found if (match := form.fullmatch(name)) and os.path.isfile(name)]


def _replace(path: str, parts: tuple[str, ...]) -> str:
    remaining = iter(parts)
    return WILDCARD.sub(lambda _: next(remaining), path)


def widowed(corpus: Iterable[Sides]) -> list[Path]:
    """Files whose partner on the other side does not exist."""
    paths = [(source.path, target.path) for source, target in corpus]
    both_ways = [pair for source, target in paths for pair in ((source, target), (target, source))]
    return [file for file, partner in both_ways if os.path.isfile(file) and not os.path.isfile(partner)]


def dataset_splits(path: Path) -> list[str]:
    """Splits beside a state.json that is missing: the folder holds several datasets, and one must be named."""
    folder = path.parent
    return sorted(split.parent.name for split in folder.glob(f"*/{DATASET}")) if path.name == DATASET else []
