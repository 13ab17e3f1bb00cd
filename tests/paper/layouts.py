"""What the tests of recipes share: reading a layout back."""

from __future__ import annotations

import gzip
from pathlib import Path


def lines_of(folder: Path, split: str, language: str) -> tuple[list[str], list[str]]:
    """Both sides of a split, by "\\n" alone."""
    sides = [folder / f"{split}.{language}-en.{side}.gz" for side in (language, "en")]
    source, target = (gzip.decompress(side.read_bytes()).decode().split("\n")[:-1] for side in sides)
    return source, target


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
