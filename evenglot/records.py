"""Typed records from JSON objects: frozen dataclasses whose annotations are the expected shape.

Fields may be text, numbers, booleans, null, arrays or objects of these, other records, and objects of records. An int
is a valid float; a bool is no number. Metadata of a field: `least`, the smallest number that it, or anything in it, may
be. Unknown keys are dropped, as later versions may add some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

R = TypeVar("R")


def read_record(kind: type[R], content: object, place: str = "") -> R:
    """A record from a JSON object; ValueError, with the key, if it has another shape. `place`: a prefix of keys."""
    if not isinstance(content, dict):
        where = f"`{place.rstrip('.')}`: " if place else ""
        raise ValueError(f"{where}expected an object, got {type(content).__name__}")
    shapes = shapes_of(kind)  # type: ignore[arg-type]  # mypy considers a class given by a TypeVar unhashable
    known = {name: shapes[name].read(f"{place}{name}", value) for name, value in content.items() if name in shapes}
    require(shapes, known, place)
    return kind(**known)


@dataclass(frozen=True)
class Shape:
    """The JSON values that a field may have."""

    types: frozenset[type]
    items: frozenset[type] | None = None  # types inside an array or object; None: any
    inner: Shape | None = None  # of the values, if these are arrays or objects; they are checked, not converted
    record: type | None = None  # class, if the field is a nested record
    item_record: type | None = None  # class, if the field is an object of records
    required: bool = False
    least: float | None = None  # smallest number

    def read(self, key: str, value: Any) -> Any:
        """The value of this key, as a record if it is one; ValueError if it has another shape."""
        kind = type(value)
        if kind not in self.types:
            raise ValueError(f"`{key}`: expected {_names(self.types)}, got {kind.__name__}")
        if self.inner is not None and kind in (dict, list):
            for name, item in value.items() if kind is dict else enumerate(value):
                self.inner.read(f"{key}.{name}", item)
            return value
        if kind is dict:
            if self.record is not None:
                return read_record(self.record, value, f"{key}.")
            if self.item_record is not None:
                return {name: read_record(self.item_record, item, f"{key}.{name}.") for name, item in value.items()}
            inside = value.values()
        else:
            inside = value if kind is list else ()
        if self.items is not None and not self.items.issuperset(map(type, inside)):
            raise ValueError(f"`{key}`: expected {_names(self.items)} in it")
        if self.least is not None:
            numbers = (each for each in inside or (value,) if isinstance(each, int | float))
            if any(each < self.least for each in numbers):
                raise ValueError(f"`{key}`: expected no number below {self.least:g}")
        return value


def _names(types: Iterable[type]) -> str:
    return " or ".join(sorted(each.__name__ for each in types))


def require(shapes: Mapping[str, Shape], known: Mapping[str, Any], inside: str = "") -> None:
    """Raise ValueError if a required key is missing."""
    for key, shape in shapes.items():
        if shape.required and key not in known:
            raise ValueError(f"`{inside}{key}` is missing")


@cache
def shapes_of(kind: type) -> dict[str, Shape]:
    """The fields of a JSON object, from the annotations of a record."""
    hints = get_type_hints(kind)
    found = {}
    for each in fields(kind):
        if each.name != "extra":
            is_required = each.default is MISSING and each.default_factory is MISSING
            found[each.name] = _shape(hints[each.name], is_required, each.metadata.get("least"))
    return found


def _shape(hint: Any, is_required: bool, least: float | None) -> Shape:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    types: set[type] = set()
    items: frozenset[type] | None = None
    inner = record = item_record = None
    for part in parts:
        origin, arguments = get_origin(part), get_args(part)
        if origin is not None:  # Mapping[str, X] or Sequence[X]
            types.add(dict if issubclass(origin, Mapping) else list)
            item = arguments[-1]
            if is_dataclass(item):
                item_record = item
            elif get_origin(item) is not None and get_origin(item) not in (Union, UnionType):
                inner = _shape(item, True, least)
            elif item is not Any:
                items = _scalars(item)
        elif is_dataclass(part):
            types.add(dict)
            record = part
        else:
            types |= _scalars(part)
    return Shape(frozenset(types), items, inner, record, item_record, is_required, least)  # type: ignore[arg-type]


def _scalars(hint: Any) -> frozenset[type]:
    """The JSON types of a number, string, bool or null. An int is a valid float; a bool is not a number."""
    parts = get_args(hint) or (hint,)
    types = {float: (float, int), None: (NoneType,)}
    return frozenset(each for part in parts for each in types.get(part, (part,)))
