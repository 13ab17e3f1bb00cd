"""Helpers of the recipe tests: read a layout back."""

from __future__ import annotations

import gzip
from pathlib import Path


def lines_of(folder: Path, split: str, language: str, pair: str | None = None) -> tuple[list[str], list[str]]:
    """The lines of both sides of a split, separated by "\\n" only."""
    sides = [folder / f"{split}.{pair or f'{language}-en'}.{side}.gz" for side in (language, "en")]
    source, target = (gzip.decompress(side.read_bytes()).decode().split("\n")[:-1] for side in sides)
    return source, target


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The content of all files of a folder."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
