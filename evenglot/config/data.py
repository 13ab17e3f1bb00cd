"""The section `data`: translation directions and their text files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from evenglot.config.errors import Faults, Keys, refuse, show
from evenglot.config.patterns import (
    WILDCARD,
    Columns,
    Pattern,
    check_entry,
    check_fields,
    dataset_splits,
    each_path,
    entries,
    find,
    missing,
    missing_folder,
    paths_in,
    widowed,
)
from evenglot.config.section import Context, Section, absolute, key, keys_of
from evenglot.directions import CORPUS, Direction, Grouping, GroupMap, check_code, group_of, parse
from evenglot.extras import missing as missing_package
from evenglot.text_file import DATASET, WITH_PYARROW, Corpus, Sides, kind_of
from evenglot.wording import did_you_mean, listed, some

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


def _listed(value: Any) -> Any:
    """A single value becomes a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Code = Annotated[str, AfterValidator(check_code)]
Codes = Annotated[tuple[Code, ...], BeforeValidator(_listed), Field(min_length=1, strict=False)]
FileCode = Annotated[str, AfterValidator(_file_code)]
PathPattern = Annotated[Pattern, BeforeValidator(_pattern)]


class Declaration(Section):
    """An entry of `data.directions`: one direction or several, optionally with a label and paths."""

    src: Codes = Field(description="Source language, or several.", validation_alias=AliasChoices("src", "from"))
    tgt: Codes = Field(description="Target language, or several.", validation_alias=AliasChoices("tgt", "to"))
    label: Annotated[str, Field(min_length=1)] | None = key(None, "Name of the group, for grouping: label.")
    train: PathPattern | None = key(None, "Training text of these directions.")
    valid: PathPattern | None = key(None, "Validation text of these directions; null: none.")
    test: PathPattern | None = key(None, "Test text of these directions; null: none.")
    existing: bool = key(False, "Only directions with training text, and only those of their sets that exist.")

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            direction = parse(value)
            return {"src": direction.src, "tgt": direction.tgt}
        return value

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        if not self.directions:
            raise ValueError(f"{self.src[0]!r} is both source and target; expected two different languages")
        return self

    @model_serializer
    def _shortest(self) -> str | dict[str, Any]:
        """The shortest equivalent form."""
        if len(self.src) == len(self.tgt) == 1:
            languages: dict[str, Any] = {"src": self.src[0], "tgt": self.tgt[0]}
        else:
            languages = {"from": self.src, "to": self.tgt}
        own = {key: getattr(self, key) for key in ("label", *SPLITS)}
        given = {key: value for key, value in own.items() if value is not None or key in self.without}
        return languages | given if given or len(self.directions) > 1 else self.directions[0].name

    @property
    def without(self) -> set[str]:
        """Splits that are explicitly null: these directions do not have them, even if others do."""
        return {split for split in SPLITS if split in self.model_fields_set and getattr(self, split) is None}

    @property
    def directions(self) -> tuple[Direction, ...]:
        """All combinations of two different languages."""
        return tuple(Direction(src, tgt, self.label) for src, tgt in product(self.src, self.tgt) if src != tgt)


class CorpusSettings(Section):
    """A further training corpus, which is a group of its own."""

    train: PathPattern = Field(description="Its text: paths as in data.train.")
    directions: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1, strict=False)] | None = key(
        None, "Directions that have it; null: all."
    )
    tag: bool = key(True, "Put a tag with its name, such as <<bt>>, before its source sentences.")


class DataSettings(Section):
    """The translation directions and their text files."""

    declared: Annotated[tuple[Declaration, ...], BeforeValidator(_listed), Field(min_length=1, strict=False)] = key(
        ...,
        """\
Translation directions. Language codes are letters, with suffixes after an underscore: no, por, zh_Hans, pt_BR.
A list of
    por-en                                        one direction
    {from: [por, tur], to: en}                    every combination of two different languages
    {from: [por, tur, en], to: [por, tur, en], existing: true}   those of them that have training text
    {src: por, tgt: en, label: romance, train: "mine/{lang}.txt"}
The last form sets a label (see `grouping`) or paths that replace those below; it also works with from and to.""",
        alias="directions",
        shown=("por-en", "tur-en", "aze-en"),
    )
    train: PathPattern | None = key(
        None,
        "Training text.",
        resume="free",
        grid="free",
        shown="train.{pair}.{lang}.gz",
        group="""\
Where the text is: a path in which
    {lang}        is the language of the file, so that one pattern names both files of a pair
    {pair}        is por-en, or en-por if only that exists: each corpus is stored once and used in both directions
    {src} {tgt}   are the source and the target language
    * ?           are wildcards: all matching files are used, sorted; what the wildcards match pairs the sides
or two paths, [source, target]; or a list of paths and pairs of paths, which are used one after the other. Text is
UTF-8 with one sentence per line: plain, .gz or .zst. One file can also hold both sides:
    .tsv .jsonl   also with .gz or .zst
    .parquet      also .arrow, or folder/, a dataset saved by Hugging Face's save_to_disk; all three need pyarrow:
                  pip install "evenglot[parquet]"
    .zip          with one text file per language, named by its ending, as downloaded from OPUS (Moses format)""",
    )
    valid: PathPattern | None = key(
        None, "Validation text; optional.", resume="free", grid="free", shown="valid.{pair}.{lang}.gz"
    )
    test: PathPattern | None = key(
        None, "Test text; optional.", resume="free", grid="free", shown="test.{pair}.{lang}.gz"
    )
    columns: Annotated[Columns, BeforeValidator(_columns)] | None = key(
        None,
        """\
Columns of files that hold both sides, in the order of the languages in the file name. Names, ['{src}', '{tgt}'],
are looked up in the header or the keys, then in `translation`, or with dots (text.{src}); in a .zip they are the
endings of its files. Numbers, [1, 2], are for .tsv without a header. null: [1, 2] for .tsv, otherwise the names""",
        resume="free",
        grid="free",
        group="",
    )
    file_codes: dict[Code, FileCode] = key(
        {},
        "Codes of languages in paths and columns, where they differ from yours: {por: pt, tur: tr}.",
        resume="free",
        grid="free",
    )
    codes: Mapping[Code, Annotated[str, Field(min_length=1)]] = key(
        {},
        "With model.init: names of languages in its tokenizer, where they differ: {por: por_Latn}.",
    )
    grouping: Grouping = key(
        "pair",
        "Directions that share one sampling weight: each alone (pair), or all with the same source, target or label.",
    )
    named: dict[Annotated[str, AfterValidator(_corpus_name)], CorpusSettings] = key(
        {},
        f"""\
Further training corpora by name, such as back-translations: {{bt: {{train: "bt.{{pair}}.{{lang}}"}}}}. Each is a group
of its own (por-en/bt) with a sampling weight of its own. Validation and test sets are those of the direction. Keys:
{keys_of(CorpusSettings)}""",
        alias="corpora",
        resume="free",  # the text may move; the names of corpora and their tags may not change
        grid="free",
        group="",
    )
    invalid_utf8: Literal["error", "drop"] = key(
        "error",
        "Lines that are not UTF-8: stop with an error, or drop the sentence pair.",
        resume="free",
        grid="free",
        group="",
    )

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """All directions, in the order of the file."""
        return tuple(direction for entry in self.declared for direction in entry.directions)

    @cached_property
    def corpora(self) -> tuple[Direction, ...]:
        """All training corpora: those of the directions, then those with names of their own."""
        return (
            *self.directions,
            *(
                replace(direction, corpus=name, tagged=about.tag)
                for name, about in self.named.items()
                for direction in self.directions
                if about.directions is None or direction.name in about.directions
            ),
        )

    @property
    def groups(self) -> GroupMap:
        """The group of each corpus, by its name, in the order of the file."""
        return GroupMap({corpus.name: group_of(corpus, self.grouping) for corpus in self.corpora})

    def files(self, direction: Direction, split: Split) -> Corpus | None:
        """Source and target text of a direction, whether or not it exists; None if the split is not declared."""
        _, pattern = self._pattern_of(direction, split)
        return None if pattern is None else self._find(pattern, direction)

    def _find(self, pattern: Pattern, direction: Direction) -> Corpus:
        return find(pattern, direction, self.columns, self.file_codes)

    def _pattern_of(self, direction: Direction, split: Split) -> tuple[Keys, Pattern | None]:
        """The pattern for a direction, and the keys under which it is configured."""
        if direction.corpus is not None:
            text = self.named[direction.corpus].train
            return ("corpora", direction.corpus, "train"), text if split == "train" else None
        if direction.name not in self._positions:
            raise ValueError(f"{direction.name} is not among the directions of this configuration")
        position = self._positions[direction.name]
        declared = self.declared[position]
        own: Pattern | None = getattr(declared, split)
        if own is None and split not in declared.without:
            return (split,), getattr(self, split)
        return ("directions", position, split), own

    @cached_property
    def _positions(self) -> dict[str, int]:
        """Where each direction is declared."""
        return {d.name: position for position, entry in enumerate(self.declared) for d in entry.directions}

    @model_validator(mode="after")
    def _only_existing(self) -> Self:
        """Replace entries with `existing` by the directions for which there is text now: text may come and go."""
        if not any(entry.existing for entry in self.declared):
            return self
        declared: list[Declaration] = []
        for position, entry in enumerate(self.declared):
            found = [self._with_its_sets(entry, d) for d in entry.directions] if entry.existing else [entry]
            there = [one for one in found if one is not None]
            if not there:
                refuse([(("directions", position), "there is no training text for any of them; see data.train")])
            declared += there
        return self.model_copy(update={"declared": tuple(declared)})

    def _with_its_sets(self, entry: Declaration, direction: Direction) -> Declaration | None:
        """One direction of an entry, without the sets that do not exist; None if it has no training text."""

        def exists(split: Split) -> bool:
            own: Pattern | None = getattr(entry, split)
            pattern = getattr(self, split) if own is None and split not in entry.without else own
            return pattern is not None and not missing(self._find(pattern, direction))

        if not exists("train"):
            return None
        values: dict[str, Any] = {name: getattr(entry, name) for name in entry.model_fields_set - {"existing"}}
        values |= {split: None for split in SPLITS if not exists(split)}
        return Declaration.model_construct(**{**values, "src": (direction.src,), "tgt": (direction.tgt,)})

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        context = Context.of(info)
        refuse(self._repeated(context))
        refuse([*self._unlabelled(), *self._without_training(), *self._unused_codes(), *self._unknown_directions()])
        refuse(self._without_names())
        refuse([*self._mistaken(), *((*self._missing(), *self._unreadable()) if context.check_files else ())])
        return self

    def _repeated(self, context: Context) -> Faults:
        first: dict[str, int] = {}
        for position, entry in enumerate(self.declared):
            for name in (direction.name for direction in entry.directions):
                if name in first:
                    keys = ("data", "directions", first[name])
                    place = context.source.place(keys) if context.source else f"directions[{first[name]}]"
                    yield ("directions", position), f"{name} is declared twice, here and in {place}"
                first.setdefault(name, position)

    def _unlabelled(self) -> Faults:
        if self.grouping == "label":
            for position, entry in enumerate(self.declared):
                if entry.label is None:
                    name = entry.directions[0].name
                    yield ("directions", position), f"{name} has no label, but data.grouping is 'label'"

    def _unused_codes(self) -> Faults:
        languages = sorted({code for direction in self.directions for code in (direction.src, direction.tgt)})
        for language in self.codes:
            if language not in languages:
                yield ("codes", language), f"not a language of data.directions; {did_you_mean(language, languages)}"

    def _unknown_directions(self) -> Faults:
        known = [direction.name for direction in self.directions]
        for name, about in self.named.items():
            for other in about.directions or ():
                if other not in known:
                    hint = did_you_mean(other, known)
                    yield ("corpora", name, "directions"), f"{other} is not among data.directions; {hint}"

    def _without_training(self) -> Faults:
        names = [d.name for d in self.directions if self._pattern_of(d, "train")[1] is None]
        if names:
            yield ("train",), f"missing; set the path of the training text of {some(names)}"

    def _without_names(self) -> Faults:
        if self.columns is not None and isinstance(self.columns[0], int):
            patterns = [self._pattern_of(*which)[1] for which in product(self.corpora, SPLITS)]
            paths = [path for pattern in patterns if pattern is not None for path in paths_in(pattern)]
            named = next((path for path in paths if kind_of(path) not in ("text", "tsv")), None)
            if named is not None:
                yield ("columns",), f"numbers are for .tsv; expected names, for {named}"

    def _mistaken(self) -> Faults:
        """Patterns that resolve to the same file for different texts; the first case of each pattern."""
        readers: dict[tuple[Split, Sides], str] = {}
        found: dict[Keys, str] = {}
        for direction, split in product(self.corpora, SPLITS):
            keys, _ = self._pattern_of(direction, split)
            for sides in self.files(direction, split) or ():
                other = readers.get((split, sides))
                if sides[0] == sides[1]:
                    found.setdefault(keys, f"source and target of {direction.name} would be the same file: {sides[0]}")
                elif other == direction.name:
                    found.setdefault(keys, f"{other} would use the same file twice: {sides[0]}")
                elif other is not None:
                    found.setdefault(keys, f"{other} and {direction.name} would be the same file: {sides[0]}")
                readers[split, sides] = direction.name
        yield from found.items()

    def _missing(self) -> Faults:
        """Files that do not exist, in one error per pattern."""
        absent: dict[Keys, dict[Path, None]] = {}
        hints: dict[Keys, str] = {}
        for direction, split in product(self.corpora, SPLITS):
            keys, pattern = self._pattern_of(direction, split)
            if pattern is None or not (paths := missing(corpus := self._find(pattern, direction))):
                continue
            absent.setdefault(keys, {}).update(dict.fromkeys(paths))
            if not missing(self._find(_either_way(pattern), direction)):
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
            if keys == ("train",) and keys not in hints and self._has_some_pairs():
                parts.append("with `existing: true` beside `from` and `to`, only pairs that exist are used")
            if parts and keys in (("valid",), ("test",)) and keys not in hints:
                parts.append(f"directions without such text need `{keys[0]}: null`")
            if parts:
                yield keys, "; ".join(parts)

    def _has_some_pairs(self) -> bool:
        """Is there training text for some directions of an entry from many to many, not for all?"""
        return any(
            len({bool(missing(self.files(direction, "train") or ())) for direction in entry.directions}) > 1
            for entry in self.declared
            if min(len(entry.src), len(entry.tgt)) > 1 and entry.train is None
        )

    def _unreadable(self) -> Faults:
        """Patterns of files that need a package that is not installed."""
        if find_spec("pyarrow") is None:
            patterns = dict(self._pattern_of(*which) for which in product(self.corpora, SPLITS))
            for keys, pattern in patterns.items():
                if pattern is not None and any(kind_of(path) in WITH_PYARROW for path in paths_in(pattern)):
                    yield keys, str(missing_package("parquet", "pyarrow"))


def _either_way(pattern: Pattern) -> Pattern:
    return each_path(pattern, lambda path: path.replace("{src}-{tgt}", "{pair}"))
