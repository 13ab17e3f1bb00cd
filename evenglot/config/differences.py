"""Where two configurations differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> set[str]:
    """The keys, 'section.key', at which two configurations, or some of their sections, differ."""
    found = set()
    for name in left.keys() | right.keys():
        mine, other = left.get(name), right.get(name)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            found |= {f"{name}.{key}" for key in mine.keys() | other.keys() if mine.get(key) != other.get(key)}
        elif mine != other:
            found.add(name)
    return found
