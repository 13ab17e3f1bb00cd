"""Errors in a configuration: pydantic's errors as readable lines with file, line number and advice."""

from __future__ import annotations

import reprlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from evenglot.wording import did_you_mean

Keys = tuple[Any, ...]  # the path of a value: section, key, position in a list
Faults = Iterator[tuple[Keys, str]]
KnownKeys = Callable[[Keys], list[str]]  # the keys that the section at this path can have


class ConfigError(ValueError):
    """All errors in a configuration, one per line, each with its place.

    `keys`: the paths of the wrong settings, as far as they are known.
    """

    def __init__(self, lines: Iterable[str], keys: Iterable[Keys] = ()) -> None:
        self.keys = list(keys)
        self.lines = ["".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in lines]
        super().__init__("\n".join(self.lines))


class Places(Protocol):
    """The places of values in a config file (implemented in source.py)."""

    value: dict[Any, Any]

    def place(self, keys: Keys) -> str:
        """The place as text, such as 'conf.yaml:10'."""

    def order(self, keys: Keys) -> int:
        """A sort key."""


def refuse(faults: Iterable[tuple[Keys, str]]) -> None:
    """Inside a validator: raise the given errors (keys, message), if any; pydantic adds them to its own."""
    details = [
        InitErrorDetails(type=PydanticCustomError("plain", "{message}", {"message": message}), loc=keys, input=None)
        for keys, message in faults
    ]
    if details:
        raise ValidationError.from_exception_data("config", details)


def explain(error: ValidationError, source: Places, known_keys: KnownKeys) -> ConfigError:
    """Pydantic's errors as a ConfigError, sorted by line."""
    found: dict[Keys, list[ErrorDetails]] = defaultdict(list)
    for detail in error.errors(include_url=False):
        found[_keys_in(source.value, detail)].append(detail)
    outer = {keys[:length] for keys in found for length in range(len(keys))}
    lines = []
    for keys in sorted(found, key=lambda keys: (source.order(keys), list(map(str, keys)))):
        if keys in outer:
            continue  # a failed alternative of a union type; the error at the deeper path is more specific
        place, name = source.place(keys), _name(keys)
        prefix = place if place == f"--set {name}" else f"{place}: {name}"
        lines += [f"{prefix}: {message}" for message in _messages(found[keys], keys, known_keys)]
    return ConfigError(lines, found)


def _keys_in(value: Any, detail: ErrorDetails) -> Keys:
    """Pydantic's location without the parts that are not in the file: names of types, positions in a list of one."""
    keys: list[Any] = []
    key: Any
    for key in detail["loc"]:
        inside = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if key in inside:
            value = value[key]
        elif detail["type"] in ("missing", "plain") and isinstance(key, str):
            value = None
        else:
            continue
        keys.append(key)
    return tuple(keys)


def _messages(details: list[ErrorDetails], keys: Keys, known_keys: KnownKeys) -> list[str]:
    messages, expected = [], []
    for detail in details:
        kind, context = detail["type"], detail.get("ctx", {})
        if kind == "missing":
            messages.append("missing; this key is required")
        elif kind in ("extra_forbidden", "invalid_key"):
            key = str(keys[-1]) if keys else show(detail["input"])
            messages.append(f"unknown key; {did_you_mean(key, known_keys(keys[:-1]))}")
        elif kind in ("plain", "value_error"):
            messages.append(str(context.get("message", context.get("error"))))
        elif kind in EXPECTED:
            expected.append(EXPECTED[kind].format(**context))
        else:
            messages.append(detail["msg"])
    if expected:
        messages.append(f"expected {' or '.join(dict.fromkeys(expected))}, got {show(details[0]['input'])}")
    return messages


EXPECTED: Mapping[str, str] = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text",
    "literal_error": "{expected}",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "a number below {lt:,}",
    "less_than_equal": "{le:,} or less",
    "too_short": "at least one",
    "tuple_type": "a list",
    "dict_type": "keys with values",
    "mapping_type": "keys with values",
    "model_type": "a section with keys",
}


def _name(keys: Keys) -> str:
    """The name of a key, such as 'data.directions[2].src'."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def show(value: Any) -> str:
    """A value for a message: in YAML notation, shortened if necessary."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return _shortener.repr(value)


_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = 60
