"""`evenglot example`: a config with every key, its default and its meaning, generated from the declared fields."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.fields import FieldInfo

from evenglot import yaml12
from evenglot.balance.catalogue import STRATEGIES
from evenglot.config.balance import DEFAULT_STRATEGY, BalanceSettings, model_of
from evenglot.config.models import Config
from evenglot.config.section import Section

WIDTH = 120
COMMENT = 27  # column at which comments beside keys start
INTRODUCTION = """\
Configuration of evenglot. All keys are listed here with their meaning and default. Only `data.directions` and
`data.train` are required; the shortest configuration is

    data:
      directions: [por-en, tur-en, aze-en]
      train: train.{pair}.{lang}.gz

The file is read as YAML 1.2: the language code `no` is text, not false, and 1e-3 is a number. Text that starts with a
brace needs quotes: '{src}.txt'. Paths are relative to the folder of this file. Every key can also be set on the
command line: evenglot train conf.yaml --set balance.rho=0.1 --set data.directions='[por-en, tur-en]'"""


def example() -> str:
    """The text of the example configuration."""
    parts = [_comment(INTRODUCTION)]
    for name, info in Config.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            parts.append("\n".join([_ruler(name), *_section(name, info.annotation)]))
        else:
            parts.append("\n".join(_keys({name: info}, "")))
    return "\n\n".join(parts) + "\n"


def section_text(model: type[Section]) -> str:
    """The description of a section."""
    text = inspect.getdoc(model) or ""
    if model is not BalanceSettings:
        return text
    lines = [
        text,
        f"Listed here are those of {DEFAULT_STRATEGY}. The strategies (docs/methods.md explains them):",
    ]
    width = max(map(len, STRATEGIES))
    for name in STRATEGIES:
        lines.append(f"    {name:<{width}}   {summary(name)}")
        if name != DEFAULT_STRATEGY and (found := options(name)):
            indent = f"    {'':<{width}}   "
            lines += textwrap.wrap(
                f"Options: {', '.join(found)}.", WIDTH - 2, initial_indent=indent, subsequent_indent=indent
            )
    return "\n".join(lines)


def summary(strategy: str) -> str:
    """One sentence about a strategy."""
    return (inspect.getdoc(STRATEGIES[strategy].build) or "").splitlines()[0]


def options(strategy: str) -> list[str]:
    """The options of a strategy: the keys of `balance` without those that all strategies have."""
    return [name for name in model_of(strategy).model_fields if name not in BalanceSettings.model_fields]


def shown_value(info: FieldInfo) -> Any:
    """The default, or the value declared for the example."""
    value = info.examples[0] if info.examples else info.default
    return list(value) if isinstance(value, tuple) else value


@dataclass
class KeyGroup:
    """A group of related keys and the text above them."""

    text: str
    fields: dict[str, FieldInfo] = field(default_factory=dict)


def key_groups(model: type[Section]) -> list[KeyGroup]:
    """The keys of a section in groups; for `balance`, with the options of the example strategy."""
    groups = [KeyGroup("")]
    fields = model_of(DEFAULT_STRATEGY) if model is BalanceSettings else model
    for name, info in fields.model_fields.items():
        is_first_option = model is BalanceSettings and name == options(DEFAULT_STRATEGY)[0]
        if (text := flags(info).get("group", "" if is_first_option else None)) is not None:
            groups.append(KeyGroup(text))
        groups[-1].fields[info.alias or name] = info
    return groups


def flags(info: FieldInfo) -> dict[str, Any]:
    """The flags of a key (see `key` in section.py)."""
    extra: Any = info.json_schema_extra
    return extra or {}


def _section(name: str, model: type[Section]) -> Iterator[str]:
    yield _comment(section_text(model))
    yield f"{name}:"
    for number, group in enumerate(key_groups(model)):
        if number:
            yield ""
        if group.text:
            yield _comment(group.text, "  ")
        yield from _keys(group.fields, "  ")


def _keys(fields: Mapping[str, FieldInfo], indent: str) -> Iterator[str]:
    """Keys with their comments: to the right of the key, or above it if the text has several lines."""
    lines = {name: f"{indent}{name}: {yaml12.dump_line(shown_value(info))}" for name, info in fields.items()}
    column = max(COMMENT, *(len(line) + 1 for name, line in lines.items() if "\n" not in _meaning(fields[name])), 0)
    for name, line in lines.items():
        meaning = _meaning(fields[name])
        if "\n" in meaning:
            yield _comment(meaning, indent)
            yield line
        else:
            yield from textwrap.wrap(
                meaning, WIDTH, initial_indent=f"{line:<{column}}# ", subsequent_indent=f"{'':<{column}}# "
            )


def _meaning(info: FieldInfo) -> str:
    return info.description or ""


def _ruler(name: str) -> str:
    return f"# {'-' * (WIDTH - len(name) - 3)} {name}"


def _comment(text: str, indent: str = "") -> str:
    return "\n".join(_commented(text.splitlines(), indent))


def _commented(lines: Iterable[str], indent: str) -> Iterator[str]:
    for line in lines:
        yield f"{indent}# {line}".rstrip()
