"""Errors in the section `data` that no field shows alone: repeated directions, files that are missing or shared."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from evenglot.config.data_fields import SPLITS, Split
from evenglot.config.errors import Faults, Keys, refuse
from evenglot.config.patterns import (
    WILDCARD,
    Pattern,
    dataset_splits,
    each_path,
    missing,
    missing_folder,
    paths_in,
    widowed,
)
from evenglot.config.section import Context
from evenglot.extras import missing as missing_package
from evenglot.text_file import WITH_PYARROW, Sides, kind_of
from evenglot.wording import did_you_mean, listed, some

if TYPE_CHECKING:
    from evenglot.config.data import DataSettings


def refuse_faults(data: DataSettings, context: Context) -> None:
    """Raise all errors of a kind at once; of files only if the context wants them checked."""
    refuse(_repeated(data, context))
    refuse([*_unlabelled(data), *_without_training(data), *_unused_codes(data), *_unknown_directions(data)])
    refuse(_without_names(data))
    refuse([*_mistaken(data), *((*_missing(data), *_unreadable(data)) if context.check_files else ())])


def _repeated(data: DataSettings, context: Context) -> Faults:
    first: dict[str, int] = {}
    for position, entry in enumerate(data.declared):
        for name in (direction.name for direction in entry.directions):
            if name in first:
                keys = ("data", "directions", first[name])
                place = context.source.place(keys) if context.source else f"directions[{first[name]}]"
                yield ("directions", position), f"{name} is declared twice, here and in {place}"
            first.setdefault(name, position)


def _unlabelled(data: DataSettings) -> Faults:
    if data.grouping == "label":
        for position, entry in enumerate(data.declared):
            if entry.label is None:
                name = entry.directions[0].name
                yield ("directions", position), f"{name} has no label, but data.grouping is 'label'"


def _unused_codes(data: DataSettings) -> Faults:
    languages = sorted({code for direction in data.directions for code in (direction.src, direction.tgt)})
    for language in data.codes:
        if language not in languages:
            yield ("codes", language), f"not a language of data.directions; {did_you_mean(language, languages)}"


def _unknown_directions(data: DataSettings) -> Faults:
    known = [direction.name for direction in data.directions]
    for name, about in data.named.items():
        for other in about.directions or ():
            if other not in known:
                hint = did_you_mean(other, known)
                yield ("corpora", name, "directions"), f"{other} is not among data.directions; {hint}"


def _without_training(data: DataSettings) -> Faults:
    names = [d.name for d in data.directions if data.pattern_of(d, "train")[1] is None]
    if names:
        yield ("train",), f"missing; set the path of the training text of {some(names)}"


def _without_names(data: DataSettings) -> Faults:
    if data.columns is not None and isinstance(data.columns[0], int):
        patterns = [data.pattern_of(*which)[1] for which in product(data.corpora, SPLITS)]
        paths = [path for pattern in patterns if pattern is not None for path in paths_in(pattern)]
        named = next((path for path in paths if kind_of(path) not in ("text", "tsv")), None)
        if named is not None:
            yield ("columns",), f"numbers are for .tsv; expected names, for {named}"


def _mistaken(data: DataSettings) -> Faults:
    """Patterns that resolve to the same file for different texts; the first case of each pattern."""
    readers: dict[tuple[Split, Sides], str] = {}
    found: dict[Keys, str] = {}
    for direction, split in product(data.corpora, SPLITS):
        keys, _ = data.pattern_of(direction, split)
        for sides in data.files(direction, split) or ():
            other = readers.get((split, sides))
            if sides[0] == sides[1]:
                found.setdefault(keys, f"source and target of {direction.name} would be the same file: {sides[0]}")
            elif other == direction.name:
                found.setdefault(keys, f"{other} would use the same file twice: {sides[0]}")
            elif other is not None:
                found.setdefault(keys, f"{other} and {direction.name} would be the same file: {sides[0]}")
            readers[split, sides] = direction.name
    yield from found.items()


def _missing(data: DataSettings) -> Faults:
    """Files that do not exist, in one error per pattern."""
    absent: dict[Keys, dict[Path, None]] = {}
    hints: dict[Keys, str] = {}
    for direction, split in product(data.corpora, SPLITS):
        keys, pattern = data.pattern_of(direction, split)
        if pattern is None or not (paths := missing(corpus := data.find(pattern, direction))):
            continue
        absent.setdefault(keys, {}).update(dict.fromkeys(paths))
        if not missing(data.find(_either_way(pattern), direction)):
            hints[keys] = "; to use a corpus in both directions, write {pair} instead of {src}-{tgt}"
        elif any(map(WILDCARD.search, paths_in(pattern))) and (alone := widowed(corpus)):
            hints.setdefault(keys, f"; {alone[0]} has no partner")
        elif splits := [split for path in paths for split in dataset_splits(path)]:
            hints.setdefault(keys, f"; the folder holds {listed(splits)}: add one of them, with / at the end")
    named: set[Path] = set()  # missing folders are named once, however many files should be there
    for keys, found in absent.items():
        folders = {} if keys in hints else {path: missing_folder(path) for path in found}
        new = [folder for folder in dict.fromkeys(folders.values()) if folder is not None and folder not in named]
        named.update(new)
        files = [path for path in found if folders.get(path) is None]
        parts = [f"no such folder: {some(map(str, new))}"] if new else []
        if files:
            parts.append(f"no such file: {some(map(str, files))}{hints.get(keys, '')}")
        if keys == ("train",) and keys not in hints and _has_some_pairs(data):
            parts.append("with `existing: true` beside `from` and `to`, only pairs that exist are used")
        if parts and keys in (("valid",), ("test",)) and keys not in hints:
            parts.append(f"directions without such text need `{keys[0]}: null`")
        if parts:
            yield keys, "; ".join(parts)


def _has_some_pairs(data: DataSettings) -> bool:
    """Is there training text for some directions of an entry from many to many, not for all?"""
    return any(
        len({bool(missing(data.files(direction, "train") or ())) for direction in entry.directions}) > 1
        for entry in data.declared
        if min(len(entry.src), len(entry.tgt)) > 1 and entry.train is None
    )


def _unreadable(data: DataSettings) -> Faults:
    """Patterns of files that need a package that is not installed."""
    if find_spec("pyarrow") is None:
        patterns = dict(data.pattern_of(*which) for which in product(data.corpora, SPLITS))
        for keys, pattern in patterns.items():
            if pattern is not None and any(kind_of(path) in WITH_PYARROW for path in paths_in(pattern)):
                yield keys, str(missing_package("parquet", "pyarrow"))


def _either_way(pattern: Pattern) -> Pattern:
    return each_path(pattern, lambda path: path.replace("{src}-{tgt}", "{pair}"))
