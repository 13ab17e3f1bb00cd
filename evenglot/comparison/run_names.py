"""Row names of the runs given on a command line as `RUN` or `NAME=RUN`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

SEED_FOLDER = re.compile(r"seed-\d+")


def named_runs(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """Row names and folders. The default name is the part of the path that differs, without a trailing 'seed-N'."""
    split = [(name if equals else "", Path(path if equals else name)) for name, equals, path in _parted(arguments)]
    unnamed = [path.resolve() for name, path in split if not name]
    rows = [path.parent if SEED_FOLDER.fullmatch(path.name) else path for path in unnamed]
    common = 0
    if len(set(rows)) > 1:
        parts = list(zip(*(row.parts for row in rows), strict=False))
        different = next((depth for depth, names in enumerate(parts) if len(set(names)) > 1), len(parts))
        common = min(different, *(len(row.parts) - 1 for row in rows))  # one folder may contain another
    short = iter(["/".join(row.parts[common:]) if common else row.name for row in rows])
    return [(name or next(short), path) for name, path in split]


def _parted(arguments: Sequence[str]) -> list[tuple[str, str, str]]:
    """Split at the first equals sign, unless the whole argument is an existing folder."""
    return [(text, "", "") if Path(text).exists() else text.partition("=") for text in arguments]
