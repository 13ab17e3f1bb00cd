"""Metadata of an exported folder: provenance, directions and vocabularies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentencepiece

from evenglot.directions import Direction, tag, tag_kind
from evenglot.reading import LaterFormatError, read_json, refuse_later
from evenglot.records import read_record
from evenglot.seals import refuse_changed, unsealed

ABOUT = "evenglot.json"
VERSION = 1  # of the folder; earlier exports do not say it


@dataclass(frozen=True, kw_only=True)
class About:
    """What every export says of itself."""

    format: str
    version: int = 1
    max_positions: int = field(metadata={"least": 1})
    directions: Sequence[str] = ()
    tags: Sequence[str] = ()
    step: int = 0
    files: Mapping[str, Sequence[int]] = field(default_factory=dict)  # sizes and checksums; older exports have none


def read_about(folder: Path) -> dict[str, Any] | None:
    """The metadata of an export for CTranslate2; None if the folder is not one. LaterFormatError if it is too new."""
    try:
        content = unsealed(read_json(folder / ABOUT))
        refuse_later(content, folder / ABOUT, VERSION, key="version")
        about = read_record(About, content)
    except LaterFormatError:
        raise
    except (OSError, ValueError):
        return None
    return content if about.format == "ctranslate2" else None


def verified_about(folder: Path) -> dict[str, Any]:
    """The metadata of an export for CTranslate2; ValueError if it is none, or if one of its files has changed."""
    about = read_about(folder)
    if about is None:
        raise ValueError(f"{folder}: not an export for CTranslate2 (no valid {ABOUT})")
    refuse_changed(folder, about.get("files", {}), "export the model again, or restore a backup")
    return about


def vocabulary(folder: Path, side: str) -> sentencepiece.SentencePieceProcessor:
    """The SentencePiece model of the source or target side in an exported folder."""
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.model"))


def pieces_of(vocabulary: sentencepiece.SentencePieceProcessor) -> list[str]:
    """All subwords, in the order of their ids."""
    return [vocabulary.id_to_piece(i) for i in range(len(vocabulary))]


def describe(
    directions: Iterable[Direction], max_positions: int, quantization: str, run: str, step: int
) -> dict[str, Any]:
    """The metadata of an exported model."""
    directions = list(directions)
    side = tag_kind(directions)
    return {
        "format": "ctranslate2",
        "version": VERSION,
        "quantization": quantization,
        "directions": [direction.name for direction in directions],
        "tag_side": side,
        "tags": sorted({tag(direction, side) for direction in directions}),
        "max_positions": max_positions,
        "run": run,
        "step": step,
    }
