"""Keys that may change when a run is resumed, or between a grid and its finished runs (declared on the fields)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenglot.config.models import Config
from evenglot.config.section import Section


def declared() -> Iterator[tuple[str, dict[str, Any]]]:
    """All keys in the form 'section.key', with their flags (see `key` in section.py)."""
    for section, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            for name, inner in field.annotation.model_fields.items():
                yield f"{section}.{inner.alias or name}", _flags(inner.json_schema_extra)
        else:
            yield section, _flags(field.json_schema_extra)


def _flags(extra: Any) -> dict[str, Any]:
    return extra or {}


def _keys_with(flag: str, value: object) -> frozenset[str]:
    return frozenset(key for key, flags in declared() if flags.get(flag) == value)


FREE_ON_RESUME = _keys_with("resume", "free")
REMEDIES = _keys_with("resume", "remedy")  # for a run that diverged; they change the training
FREE_IN_GRID = _keys_with("grid", "free")
ENDS_RUN = _keys_with("ends_run", True)


def free_on_resume(config: Config) -> frozenset[str]:
    """Keys that may change when this run is resumed, except those that other settings depend on."""
    tied = set()
    if config.train.schedule == "linear" or config.train.cooldown:
        tied.add("train.updates")  # the learning rate is a function of it
    if config.balance.options.get("max_passes") is not None:
        tied.add("train.intervals")  # the limit on passes is distributed over them
    return (FREE_ON_RESUME | REMEDIES) - tied
