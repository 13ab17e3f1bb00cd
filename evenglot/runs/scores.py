"""Scores and translations in the run folder: paths and reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenglot.directions import Direction, parse
from evenglot.runs.run import Run, RunError


def scored_with(run: Run, split: str) -> dict[str, Any] | None:
    """The scoring settings (beam, checkpoint, ...) of a run; None if there are no scores or they are damaged."""
    try:
        content = json.loads(scores_file(run, split).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    made = content.get("made", {}) if isinstance(content, dict) else None
    return made if isinstance(made, dict) and statistics_file(run, split).exists() else None


def scores_file(run: Run, split: str) -> Path:
    """scores.json for the test set, scores-SPLIT.json for other splits."""
    return run.folder / ("scores.json" if split == "test" else f"scores-{split}.json")


def statistics_file(run: Run, split: str) -> Path:
    """Sentence-level statistics: statistics.npz for the test set, statistics-SPLIT.npz for other splits."""
    return run.folder / ("statistics.npz" if split == "test" else f"statistics-{split}.npz")


def read_translations(run: Run, split: str, name: str) -> list[str]:
    """The translations of one direction written by `evenglot score`."""
    return read_lines(translations_file(run, split, name))


def translations_file(run: Run, split: str, name: str) -> Path:
    """The file of the translations of one direction in the run folder."""
    return translation_file(run.folder / "hypotheses" / split, parse(name))


def translation_file(folder: Path, direction: Direction) -> Path:
    """The file of the translations of one direction in a folder: por-en.en."""
    return folder / f"{direction.name}.{direction.tgt}"


def read_lines(file: Path) -> list[str]:
    """Lines of a UTF-8 file, split at line feeds only."""
    try:
        lines = file.read_bytes().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{file}: cannot read translations: {error}; run `evenglot score` again") from error
    return lines[:-1] if lines[-1] == "" else lines


def read_scores(run: Run) -> dict[str, Any] | None:
    """The content of scores.json, or of another split's file; None if the run was not scored."""
    for file in (run.folder / "scores.json", *sorted(run.folder.glob("scores-*.json"))):
        if file.exists():
            try:
                content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
                content["directions"], content["macro"], content["worst"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{file}: cannot be read as scores; run `evenglot score` again") from error
            return content
    return None
