"""One side of a parallel corpus on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TextFile:
    """Location of one side of a corpus: a text file, or a column of a TSV file (by 0-based number or by header)."""

    path: Path
    column: int | str | None = None
