"""Small changes to JSON values, chosen by numbers, so that hypothesis and a seeded generator can both make them."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

DEEP: Any = []  # not deeper: copying takes two calls a level, and Python allows a thousand
for _ in range(300):
    DEEP = [DEEP]

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, "", "1", "nan", "../../etc/passwd", "\ud800", "x" * 10_000, "a-b"),
    *(0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.5, 1e308, -1e308, 1e-320, math.nan, math.inf, -math.inf),
    *([], {}, [0], [[]], {"": None}, {"a": 1}, [None, 1, "x"], {"event": "config"}, DEEP),
)
KINDS = ("replace", "delete", "add", "change", "wrap", "swap", "rename", "duplicate")


@dataclass(frozen=True)
class Mutation:
    """One change: what kind, at which of all places (modulo their number), with which of the hostile values."""

    kind: str
    place: int
    value: int

    @property
    def hostile(self) -> Any:
        """The value."""
        return copy.copy(HOSTILE[self.value % len(HOSTILE)])


def at_random(chance: random.Random, most: int = 3) -> list[Mutation]:
    """One to `most` changes."""
    return [
        Mutation(chance.choice(KINDS), chance.randrange(1 << 30), chance.randrange(1 << 30))
        for _ in range(chance.randint(1, most))
    ]


def mutated(content: Any, mutations: Iterable[Mutation]) -> Any:
    """A changed copy of a JSON value."""
    holder = [copy.deepcopy(content)]
    for mutation in mutations:
        places = list(_places(holder))
        if places:
            _apply(mutation, *places[mutation.place % len(places)], places)
    return holder[0] if holder else None


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a value, outermost first, to a depth that Python can recurse to."""
    if depth > 20 or not isinstance(value, dict | list):
        return
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        yield from _places(value[key], depth + 1)


def _apply(mutation: Mutation, container: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    value = container[key]
    match mutation.kind:
        case "delete":
            del container[key]
        case "add" if isinstance(value, dict):
            value[f"x{mutation.value % 7}"] = mutation.hostile
        case "add" if isinstance(value, list):
            value.append(mutation.hostile)
        case "change" if isinstance(value, int | float):
            container[key] = _changed(value, mutation.value)
        case "wrap":
            container[key] = [value] if mutation.value % 2 else {"x": value}
        case "swap":
            other, place = places[mutation.value % len(places)]
            container[key] = copy.deepcopy(other[place])
        case "rename" if isinstance(container, dict):
            container[f"{key}x"] = container.pop(key)
        case "duplicate" if isinstance(container, list):
            container.append(copy.deepcopy(value))
        case _:
            container[key] = mutation.hostile


def _changed(value: float, how: int) -> float:
    """A number near by, or of another size, sign or type: wrong in the way that is hardest to see."""
    try:
        return (value + 1, value - 1, -value, value * 2, value * 1e-9, value * 1e30, value + 1e-6, int(value))[how % 8]
    except (OverflowError, ValueError):
        return -1
