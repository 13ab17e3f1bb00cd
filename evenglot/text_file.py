"""One side of a parallel corpus on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TextFile:
    """Where one side of a corpus stands: a file of lines, or a column of a TSV (by number from 0, or by its header)."""

    path: Path
    column: int | str | None = None
