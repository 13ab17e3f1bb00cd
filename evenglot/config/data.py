"""The section `data`: translation directions and their text files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, ValidationInfo, model_serializer, model_validator

from evenglot.config.data_faults import refuse_faults
from evenglot.config.data_fields import (
    SPLITS,
    Code,
    Codes,
    ColumnPair,
    CorpusName,
    FileCode,
    PathPattern,
    Split,
    as_list,
)
from evenglot.config.errors import Keys, refuse
from evenglot.config.patterns import Pattern, find, missing
from evenglot.config.section import Context, Section, key, keys_of
from evenglot.directions import Direction, Grouping, GroupMap, group_of, parse
from evenglot.text_file import Corpus
from evenglot.wording import listed


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
    directions: Annotated[tuple[str, ...], BeforeValidator(as_list), Field(min_length=1, strict=False)] | None = key(
        None, "Directions that have it; null: all."
    )
    tag: bool = key(True, "Put a tag with its name, such as <<bt>>, before its source sentences.")


class DataSettings(Section):
    """The translation directions and their text files."""

    declared: Annotated[tuple[Declaration, ...], BeforeValidator(as_list), Field(min_length=1, strict=False)] = key(
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
    columns: ColumnPair | None = key(
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
    named: dict[CorpusName, CorpusSettings] = key(
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
        _, pattern = self.pattern_of(direction, split)
        return None if pattern is None else self.find(pattern, direction)

    def find(self, pattern: Pattern, direction: Direction) -> Corpus:
        """Source and target text of a direction by this pattern, whether or not it exists."""
        return find(pattern, direction, self.columns, self.file_codes)

    def pattern_of(self, direction: Direction, split: Split) -> tuple[Keys, Pattern | None]:
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
            if entry.existing:
                named = {language for d in entry.directions for language in (d.src, d.tgt)}
                used = {language for one in there for language in (*one.src, *one.tgt)}
                if alone := sorted(named - used):
                    message = f"there is no training text for any direction with {listed(alone)}; see data.train"
                    refuse([(("directions", position), message)])
            declared += there
        return self.model_copy(update={"declared": tuple(declared)})

    def _with_its_sets(self, entry: Declaration, direction: Direction) -> Declaration | None:
        """One direction of an entry, without the sets that do not exist; None if it has no training text."""

        def exists(split: Split) -> bool:
            own: Pattern | None = getattr(entry, split)
            pattern = getattr(self, split) if own is None and split not in entry.without else own
            return pattern is not None and not missing(self.find(pattern, direction))

        if not exists("train"):
            return None
        values: dict[str, Any] = {name: getattr(entry, name) for name in entry.model_fields_set - {"existing"}}
        values |= {split: None for split in SPLITS if not exists(split)}
        return Declaration.model_construct(**{**values, "src": (direction.src,), "tgt": (direction.tgt,)})

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        refuse_faults(self, Context.of(info))
        return self
