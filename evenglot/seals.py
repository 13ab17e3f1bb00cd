"""Checksums in what is written: they detect accidental damage, not intent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenglot.files import checksum, digest


def checksums(folder: Path) -> dict[str, list[int]]:
    """Size and CRC-32 of every file in a folder, by name."""
    return checksums_of(file for file in sorted(folder.iterdir()) if file.is_file())


def checksums_of(files: Iterable[Path]) -> dict[str, list[int]]:
    """Size and CRC-32 of files, by name."""
    return {file.name: [file.stat().st_size, checksum(file)] for file in files}


def refuse_changed(folder: Path, expected: Mapping[str, Sequence[int]], advice: str) -> None:
    """ValueError naming the first file that does not have its size and CRC-32."""
    for name, (size, crc) in expected.items():
        file = folder / Path(name).name
        if not file.is_file():
            raise ValueError(f"{file}: missing; {advice}")
        if file.stat().st_size != size or checksum(file) != crc:
            raise ValueError(f"{file}: changed since it was written; {advice}")


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """JSON with a checksum of its own."""
    return {**content, "checksum": digest(json.dumps(content, sort_keys=True).encode())}


def unsealed(content: Any) -> dict[str, Any]:
    """Its content, verified; files of older versions have no checksum. ValueError if it was changed."""
    if not isinstance(content, dict):
        raise ValueError("expected an object")
    inner = {key: value for key, value in content.items() if key != "checksum"}
    if "checksum" in content and sealed(inner) != content:
        raise ValueError("changed since it was written")
    return inner
