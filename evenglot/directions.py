"""Translation directions: names, language tags, groups, and their shape (many-to-one, ...)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")
Grouping = Literal["pair", "source", "target", "label"]
Shape = Literal["one-to-one", "many-to-one", "one-to-many", "many-to-many"]

Number = TypeVar("Number", int, float)
Value = TypeVar("Value")

CODE = re.compile(r"[A-Za-z]{2,8}(_[A-Za-z0-9]{1,8})*")


CORPUS = re.compile(r"[A-Za-z0-9_]{1,32}")
CORPUS_MARK = "/"  # between the name of a direction and that of one of its corpora


@dataclass(frozen=True)
class Direction:
    """A source and a target language; `label` is an optional user-defined group.

    `corpus`: only one corpus of the direction, which has a name of its own ('bt'), and if `tagged` a tag, too.
    """

    src: str
    tgt: str
    label: str | None = None
    corpus: str | None = None
    tagged: bool = False

    def __post_init__(self) -> None:
        check_code(self.src)
        check_code(self.tgt)
        if self.src == self.tgt:
            raise ValueError(f"{self.name!r} translates a language into itself")

    @property
    def name(self) -> str:
        """'src-tgt', or 'src-tgt/corpus': the key in all mappings."""
        languages = f"{self.src}-{self.tgt}"
        return languages if self.corpus is None else f"{languages}{CORPUS_MARK}{self.corpus}"

    @property
    def corpus_tag(self) -> str | None:
        """The tag of the corpus, after the language tag: '<<bt>>'."""
        return f"<<{self.corpus}>>" if self.tagged else None

    def reverse(self) -> Direction:
        """The opposite direction."""
        return Direction(self.tgt, self.src, self.label)


def parse(text: str) -> Direction:
    """A direction from its name: 'por-en', 'zh_Hans-en'."""
    codes = text.split("-")
    if len(codes) != 2:
        raise ValueError(
            f"expected a direction such as 'por-en', got {text!r}; "
            "the hyphen stands between the languages, so inside a code write an underscore: 'pt_BR-en'"
        )
    source, target = codes
    return Direction(source, target)


def whole_direction(name: str) -> str:
    """The name of the direction that a corpus belongs to: 'por-en' for 'por-en/bt' and for 'por-en'."""
    return name.partition(CORPUS_MARK)[0]


def check_code(code: str) -> str:
    """The code if it is a valid language code ('no', 'por', 'zh_Hans', 'es_419'), otherwise ValueError."""
    if CODE.fullmatch(code):
        return code
    underscored = code.replace("-", "_")
    hint = f"write {underscored!r}" if CODE.fullmatch(underscored) else "expected one such as 'no', 'por' or 'zh_Hans'"
    raise ValueError(f"{code!r} is not a language code; {hint}")


def tag(direction: Direction, kind: Side) -> str:
    """The language tag at the start of a source sentence, as in OPUS-MT: '>>por<<'."""
    return f">>{direction.src if kind == 'source' else direction.tgt}<<"


def tag_kind(directions: Iterable[Direction]) -> Side:
    """The side whose language the tag names: the source if all directions share a target, otherwise the target."""
    return "source" if shared_side(directions) == "target" else "target"


def shared_side(directions: Iterable[Direction]) -> Side | None:
    """The side on which all directions have the same language; the target if both, None if neither."""
    found = shape(directions)
    if found == "many-to-many":
        return None
    return "source" if found == "one-to-many" else "target"


def shape(directions: Iterable[Direction]) -> Shape:
    """One or many source and target languages: 'one-to-one', 'many-to-one', 'one-to-many' or 'many-to-many'."""
    pairs = [(direction.src, direction.tgt) for direction in directions]
    if not pairs:
        raise ValueError("directions: there are none")
    sources, targets = map(set, zip(*pairs, strict=True))
    if len(targets) == 1:
        return "one-to-one" if len(sources) == 1 else "many-to-one"
    return "one-to-many" if len(sources) == 1 else "many-to-many"


def group_of(direction: Direction, grouping: Grouping) -> str:
    """The group of a direction: its name, source language, target language or label.

    A corpus with a name of its own is never in the group of its direction: 'por/bt' instead of 'por'.
    """
    if grouping == "label" and direction.label is None:
        raise ValueError(f"{direction.name} has no label to be grouped by")
    pair = f"{direction.src}-{direction.tgt}"
    found = {"pair": pair, "source": direction.src, "target": direction.tgt, "label": direction.label}[grouping]
    return str(found) if direction.corpus is None else f"{found}{CORPUS_MARK}{direction.corpus}"


@dataclass(frozen=True, eq=False)
class GroupMap(Mapping[str, str]):
    """The group of each direction, by name, and every conversion between amounts by direction and by group.

    A direction is one source-target pair; a group is a set of directions that shares one weight in the mixture.
    """

    by_direction: Mapping[str, str]  # in the order of the configuration

    def __getitem__(self, direction: str) -> str:
        return self.by_direction[direction]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_direction)

    def __len__(self) -> int:
        return len(self.by_direction)

    @property
    def names(self) -> tuple[str, ...]:
        """The groups, in the order of their first directions."""
        return tuple(dict.fromkeys(self.by_direction.values()))

    def members(self, directions: Iterable[str]) -> dict[str, list[str]]:
        """These directions by group; a group with none of them is left out."""
        found: dict[str, list[str]] = {}
        for direction in directions:
            found.setdefault(self.by_direction[direction], []).append(direction)
        return found

    def sum(self, amounts: Mapping[str, Number]) -> dict[str, Number]:
        """By direction -> by group: totals, added up in the order of `amounts`, so that rounding is reproducible."""
        totals: dict[str, Number] = dict.fromkeys(self.names, 0)
        for direction, amount in amounts.items():
            totals[self.by_direction[direction]] += amount
        return totals

    def spread(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """By group -> by direction: each direction gets the value of its group."""
        return {direction: values[group] for direction, group in self.by_direction.items()}

    def shares(self, shares: Mapping[str, float], sizes: Mapping[str, float]) -> dict[str, float]:
        """By group -> by direction: the share of a group, divided among its directions in proportion to size."""
        totals = self.sum(sizes)
        return {
            direction: shares[group] * sizes[direction] / totals[group] if totals[group] else 0.0
            for direction, group in self.by_direction.items()
        }
