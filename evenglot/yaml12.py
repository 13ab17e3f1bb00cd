"""Read and write YAML 1.2 (core schema), with the line number of every value.

PyYAML implements version 1.1, where the language code `no` is False, `1e-3` is a string and `12:30` is 750. In the core
schema of version 1.2 only true and false are booleans, `1e-3` is a number and the other two are strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import yaml

Path = tuple[Any, ...]  # keys and list positions that lead to a value
Lines = dict[Path, int]

MOST_VALUES = 100_000  # per file; nested aliases expand exponentially
MOST_BITS = 4096  # of a whole number; Python refuses to print much larger ones


class YamlError(ValueError):
    """Invalid YAML; `faults` has one or more (line, message)."""

    def __init__(self, faults: Iterable[tuple[int, str]]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(f"line {line}: {message}" for line, message in self.faults))


def parse(text: str) -> tuple[Any, Lines]:
    """The value of a YAML document (None if it is empty), and the line of each of its keys and list items."""
    try:
        node = _Loader(text).get_single_node()
        build = _Build()
        value = None if node is None else build(node, ())
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError([(line, f"character U+{error.character:04X} is not allowed in YAML")]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        raise YamlError([(line + 1, _plain(error, text.split("\n")[line : line + 1]))]) from None
    except RecursionError:
        raise YamlError([(1, "nested too deeply")]) from None
    except YamlError:
        raise
    except (ValueError, OverflowError):  # PyYAML on an escape beyond Unicode, "\UFFFFFFFF"
        raise YamlError([(1, "not valid YAML: an escape that is not a Unicode character")]) from None
    if build.faults:
        raise YamlError(build.faults)
    return value, build.lines


def dump(value: Any) -> str:
    """The value as YAML that versions 1.2 and 1.1 read alike: ambiguous strings are quoted."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False)


def dump_line(value: Any) -> str:
    """The value as YAML in one line; unlike JSON it supports integer keys and infinity."""
    endless = float("inf")
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=endless, default_flow_style=True)
    return text.removesuffix("\n...\n").removesuffix("\n")


def _plain(error: yaml.MarkedYAMLError, near: list[str]) -> str:
    problem = error.problem or error.context or "syntax error"
    if "'\\t'" in problem:
        return "not valid YAML: found a tab; indent with spaces"
    if "expected a single document" in (error.context or ""):
        return "a second document begins here; expected only one"
    if any(re.search(r"(:|-|,|\[) *\{\w+\}[^\s,\]}]", line) for line in near):
        return "not valid YAML: a string that begins with a brace must be quoted: '{src}...'"
    return f"not valid YAML: {problem}"


# ------------------------------------------------------------------------------------------ the core schema


def _integer(text: str) -> int:
    value = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if value.bit_length() > MOST_BITS:
        raise ValueError(f"a number of more than {MOST_BITS} bits")
    return value


def _real(text: str) -> float:
    return float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))


_PREFIX = "tag:yaml.org,2002:"
_CORE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", lambda text: text in ("true", "True", "TRUE")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", _integer),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        _real,
    ),
    "str": (r"(?s:.*)", str),
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's API


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


for _name, (_pattern, _) in _CORE.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_PREFIX + _name, re.compile(rf"(?:{_pattern})\Z"), None)


def _list(dumper: _Dumper, items: list[Any] | tuple[Any, ...]) -> yaml.Node:
    short = all(isinstance(item, str | int | float) for item in items)
    return dumper.represent_sequence(_PREFIX + "seq", items, flow_style=short or bool(dumper.default_flow_style))


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    style = None if text.isprintable() else '"'  # unquoted, PyYAML loses line breaks other than \n
    return dumper.represent_scalar(_PREFIX + "str", text, style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(tuple, _list)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Build:
    """Builds values from nodes like PyYAML's constructor, but with a size limit, line numbers and no duplicate keys."""

    def __init__(self) -> None:
        self.lines: Lines = {}
        self.faults: list[tuple[int, str]] = []
        self._open: set[yaml.Node] = set()
        self._count = 0

    def __call__(self, node: yaml.Node, path: Path) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise YamlError([(_line(node), f"more than {MOST_VALUES:,} values; are there nested aliases?")])
        if node in self._open:
            raise YamlError([(_line(node), "an alias that contains itself")])
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if node.tag not in (_PREFIX + "map", _PREFIX + "seq"):
            self._fault(node, f"unknown tag {node.tag!r}")
        self._open.add(node)
        value = self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path)
        self._open.remove(node)
        return value

    def _fault(self, node: yaml.Node, message: str) -> None:
        self.faults.append((_line(node), message))

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        pattern, build = _CORE.get(node.tag.removeprefix(_PREFIX), (None, str))
        if pattern is None:
            self._fault(node, f"unknown tag {node.tag!r}")
            return None
        try:
            node.value.encode()  # fails for a lone surrogate such as "\ud800"
            if re.fullmatch(pattern, node.value):
                return build(node.value)
        except ValueError:  # also for more digits than Python converts
            pass
        self._fault(node, f"cannot read {node.value[:20]!a} as {node.tag.removeprefix(_PREFIX)}")
        return None

    def _sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        for position, item in enumerate(node.value):
            self.lines[*path, position] = _line(item)
        return [self(item, (*path, position)) for position, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(key_node, "a key must be a string or a number")
                continue
            key = self._scalar(key_node)
            here = (*path, key)
            if key in result:
                self._fault(key_node, f"duplicate key {key!r}, first in line {self.lines[here]}")
                continue
            self.lines[here] = _line(key_node)
            result[key] = self(value_node, here)
        return result
