"""A saved state, checked value by value as it is read.

Whatever is not a state that `state_dict` could have returned raises OptionError: wrong types, missing or superfluous
keys, other groups, numbers out of range, shares that are no distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from reprlib import repr as shortened  # nested values of any depth
from typing import Any

from evenglot.balance.groups import Groups
from evenglot.robust.validate import OptionError, Vector

LARGEST = 1e100  # absolute; sums, squares and products of larger numbers could overflow later
LARGEST_COUNT = 2**53  # from here on, floats skip integers
ROUNDING = 1e-9  # by which saved shares may miss the sum of 1


class SavedState(Mapping[str, Any]):
    """A mapping that notes which keys are read, and reads values of an expected kind."""

    def __init__(self, content: object, groups: Groups, place: str = "state") -> None:
        if not isinstance(content, Mapping):
            raise OptionError(place, f"expected what state_dict returned, got {shortened(content)}")
        self._content, self._groups, self._place = content, groups, place
        self._read: set[Any] = set()
        self._sections: list[SavedState] = []

    def __getitem__(self, key: str) -> Any:
        if key not in self._content:
            raise OptionError(self._place, f"incomplete: {key!r} is missing")
        self._read.add(key)
        return self._content[key]

    def __contains__(self, key: object) -> bool:
        return key in self._content

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def section(self, key: str) -> SavedState:
        """A nested mapping."""
        section = SavedState(self[key], self._groups, f"{self._place}: {key}")
        self._sections.append(section)
        return section

    def count(self, key: str) -> int:
        """An integer that is not negative."""
        value = self[key]
        if type(value) is not int or not 0 <= value <= LARGEST_COUNT:
            raise self._wrong(key, "expected an integer, 0 or more", value)
        return value

    def flag(self, key: str) -> bool:
        """True or False."""
        value = self[key]
        if type(value) is not bool:
            raise self._wrong(key, "expected true or false", value)
        return value

    def vector(self, key: str, least: float = -math.inf) -> Vector:
        """A number for each group, in the order of the groups, none below `least`."""
        values = self[key]
        if not isinstance(values, Mapping):
            raise self._wrong(key, "expected a number for each group", values)
        for name, value in values.items():
            if type(value) not in (int, float) or not max(least, -LARGEST) <= value <= LARGEST:
                bound = "" if least == -math.inf else f", {least:g} or more"
                raise self._wrong(key, f"expected a number{bound}, for {shortened(name)}", value)
        return self._groups.vector(values, f"{self._place}: {key}")

    def shares(self, key: str) -> Vector:
        """A distribution over the groups that have data, exactly as it was saved."""
        values = self.vector(key, least=0.0)
        if abs(values.sum() - 1) > ROUNDING:
            raise self._wrong(key, "expected shares that sum to 1; their sum", float(values.sum()))
        if values[self._groups.p == 0].any():
            raise self._wrong(key, "a group without data has a share", self[key])
        return values

    def refuse_unread(self) -> None:
        """Raise if there are keys that nobody has read: the state is not one of this strategy."""
        if unread := sorted(str(key) for key in self._content if key not in self._read):
            raise OptionError(self._place, f"unknown key {unread[0]!r}")
        for section in self._sections:
            section.refuse_unread()

    def _wrong(self, key: str, expected: str, value: object) -> OptionError:
        return OptionError(f"{self._place}: {key}", f"{expected}; got {shortened(value)}")
