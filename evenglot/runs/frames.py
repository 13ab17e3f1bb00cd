"""The events of a log as a pandas or polars data frame, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from evenglot.extras import missing
from evenglot.runs.events import KINDS, Event, to_json
from evenglot.wording import did_you_mean

Library = Literal["pandas", "polars"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


def frame(events: Iterable[Event], kind: str, library: Library | None = None) -> Any:
    """One row for each event of this kind; values by direction have columns such as `loss.por-en`.

    `library`: pandas or polars; the first that is installed if omitted.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: unknown event {kind!r}; {did_you_mean(kind, KINDS)}")
    rows = [dict(_flat(to_json(event))) for event in events if isinstance(event, KINDS[kind])]
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    columns.pop("event", None)
    return import_module(_found(library)).DataFrame(columns)


def _found(library: str | None) -> str:
    if library is not None and library not in LIBRARIES:
        raise ValueError(f"library: expected pandas or polars, got {library!r}")
    wanted: Sequence[str] = LIBRARIES if library is None else (library,)
    for name in wanted:
        if find_spec(name) is not None:
            return name
    raise missing("frames", *wanted[:1])


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested values under keys joined with dots; lists stay as they are."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
