"""Translation directions: names, language tags, groups, and their shape (many-to-one, ...)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")
Grouping = Literal["pair", "source", "target", "label"]
Shape = Literal["one-to-one", "many-to-one", "one-to-many", "many-to-many"]

CODE = re.compile(r"[A-Za-z]{2,8}(_[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class Direction:
    """A source and a target language; `label` is an optional user-defined group."""

    src: str
    tgt: str
    label: str | None = None

    def __post_init__(self) -> None:
        check_code(self.src)
        check_code(self.tgt)
        if self.src == self.tgt:
            raise ValueError(f"{self.name!r} translates a language into itself")

    @property
    def name(self) -> str:
        """'src-tgt', the key of this direction in all mappings."""
        return f"{self.src}-{self.tgt}"

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
    return Direction(*codes)


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


def sum_by_group(amounts: Mapping[str, int], groups: Mapping[str, str]) -> dict[str, int]:
    """The sum of the amounts of the directions of each group."""
    sums = dict.fromkeys(groups.values(), 0)
    for name, group in groups.items():
        sums[group] += amounts[name]
    return sums


def shares_by_direction(
    shares: Mapping[str, float], groups: Mapping[str, str], sizes: Mapping[str, float]
) -> dict[str, float]:
    """The share of each direction, given the shares of the groups; proportional to size within a group."""
    totals: dict[str, float] = {}
    for name, group in groups.items():
        totals[group] = totals.get(group, 0) + sizes[name]
    return {
        name: shares[group] * sizes[name] / totals[group] if totals[group] else 0.0 for name, group in groups.items()
    }


def group_of(direction: Direction, grouping: Grouping) -> str:
    """The group of a direction: its name, source language, target language or label."""
    if grouping == "label":
        if direction.label is None:
            raise ValueError(f"{direction.name} has no label to be grouped by")
        return direction.label
    return {"pair": direction.name, "source": direction.src, "target": direction.tgt}[grouping]
