"""Where a configuration says that vocabularies come from, if they are not learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenglot.directions import SIDES
from evenglot.model.families import is_run

if TYPE_CHECKING:
    from evenglot.config.models import Config


def given_folder(config: Config) -> Path | None:
    """The folder of the SentencePiece models to use: of `vocabulary.from`, or of the run in `model.init`."""
    if config.model.init is not None:
        init = Path(config.model.init)
        return init / "vocabulary" if is_run(init) else None
    return None if config.vocabulary.given is None else vocabulary_folder(Path(config.vocabulary.given))


def vocabulary_folder(folder: Path) -> Path:
    """The folder itself, or that of the vocabularies if it is a run."""
    inside = folder / "vocabulary"
    return inside if inside.is_dir() else folder


def has_models(folder: Path) -> bool:
    """Whether the SentencePiece models of both sides are in a folder."""
    return all((folder / f"{side}.model").is_file() for side in SIDES)
