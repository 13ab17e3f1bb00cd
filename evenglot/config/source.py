"""A config file as read: its values, their line numbers, and the overrides from the command line."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenglot import yaml12
from evenglot.config.errors import ConfigError, Keys, show

LARGEST = 1 << 20  # bytes; far more than any real config


class Source:
    """The content of a config file, with overrides from the command line applied.

    `successors` maps renamed keys to their new names (renamed.py): an override of either name replaces both.
    """

    def __init__(
        self, name: str, value: dict[Any, Any], lines: yaml12.Lines, successors: Mapping[Keys, Keys] | None = None
    ) -> None:
        self.name, self.value = name, value
        self.renamed: set[Keys] = set()  # old keys among the overrides
        self._lines = lines
        self._successors = successors or {}
        self._overrides: list[Keys] = []
        self._moved: dict[Keys, Keys] = {}  # new keys -> old keys in the file

    def set(self, override: str) -> None:
        """Apply an override 'section.key=value', with the value in YAML."""
        name, equals, text = override.partition("=")
        given = tuple(name.strip().split("."))
        if not equals or not all(given):
            raise ConfigError([f"--set {override}: expected section.key=value"])
        keys = self._successors.get(given, given)
        if keys != given:
            self.renamed.add(given)
        try:
            value, _ = yaml12.parse(text)
        except yaml12.YamlError as error:
            raise ConfigError(f"--set {name}: {message}" for _, message in error.faults) from None
        section = self.value
        for depth, key in enumerate(keys[:-1], 1):
            if section.get(key) is None:
                section[key] = {}
            section = section[key]
            if not isinstance(section, dict):
                whole = ".".join(keys[:depth])
                raise ConfigError(
                    [f"--set {name}: {whole} is not a section with keys; set all of it: --set {whole}=..."]
                )
        section[keys[-1]] = value
        for old, new in self._successors.items():
            if new == keys and old in self:
                self._remove(old)
        self._overrides = [known for known in self._overrides if known[: len(keys)] != keys] + [keys]

    def get(self, keys: Keys) -> Any:
        """The value of these keys; None if there is none."""
        section, name = self._section(keys), keys[-1]
        return None if section is None else section.get(name)

    def is_overridden(self, keys: Keys) -> bool:
        """Does an override set this value, and not a section that contains it?"""
        return keys in self._overrides

    def __contains__(self, keys: Keys) -> bool:
        section = self._section(keys)
        return section is not None and keys[-1] in section

    def move(self, old: Keys, new: Keys) -> None:
        """Move a value to a new key, unless that has a value; messages about it name the place of the old key."""
        value = self._remove(old)
        if value is None or self.get(new) is not None:
            return
        if self.value.get(new[0]) is None:
            self.value[new[0]] = {}
        if (section := self._section(new)) is not None:
            section[new[-1]] = int(value) if isinstance(value, float) and value.is_integer() else value
            self._moved[new] = old

    def _remove(self, keys: Keys) -> Any:
        return self.value[keys[0]].pop(keys[-1])

    def _section(self, keys: Keys) -> dict[Any, Any] | None:
        section = self.value.get(keys[0])
        return section if isinstance(section, dict) else None

    def place(self, keys: Keys) -> str:
        """The place of a value: 'conf.yaml:10' or '--set clean.empty'; the place of its section if it is missing."""
        return self._find(keys)[1]

    def order(self, keys: Keys) -> int:
        """A sort key: the order of places in the file, then of overrides."""
        return self._find(keys)[0]

    def _find(self, keys: Keys) -> tuple[int, str]:
        keys = self._moved.get(keys, keys)
        for length in range(len(keys), 0, -1):
            here = keys[:length]
            replaced = any(here[: len(override)] == override for override in self._overrides)
            if here in self._lines and not replaced:
                return self._lines[here], f"{self.name}:{self._lines[here]}"
            for number, override in enumerate(self._overrides):
                if override[:length] == here:  # it sets this value, or one inside that is not in the file
                    return LARGEST + number, f"--set {'.'.join(override)}"
        return 0, self.name


def read_source(
    path: str | os.PathLike[str], overrides: Sequence[str] = (), successors: Mapping[Keys, Keys] | None = None
) -> Source:
    """Read a config file. ConfigError if it is not YAML or not a mapping of sections."""
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError([f"{name}: cannot be read: {reason.lower()}"]) from None
    if len(content) > LARGEST:
        raise ConfigError([f"{name}: larger than {LARGEST:,} bytes; give the path of a config file"])
    try:
        text = content.decode("utf-8-sig")
        value, lines = yaml12.parse(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{name}:{line}: not UTF-8 (byte 0x{content[error.start]:02x})"]) from None
    except yaml12.YamlError as error:
        raise ConfigError(f"{name}:{line}: {message}" for line, message in error.faults) from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise ConfigError([f"{name}: expected sections such as 'data:', got {show(value)}"])
    return _overridden(Source(name, value, lines, successors), overrides)


def given_source(
    content: Mapping[str, Any], overrides: Sequence[str] = (), successors: Mapping[Keys, Keys] | None = None
) -> Source:
    """The content of a config file given as a dictionary, which is not changed."""
    return _overridden(Source("config", copy.deepcopy(dict(content)), {}, successors), overrides)


def _overridden(source: Source, overrides: Sequence[str]) -> Source:
    for override in overrides:
        source.set(override)
    return source
