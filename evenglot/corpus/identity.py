"""What tells whether a store is made from this text with these settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenglot.config import Config
from evenglot.config.data_fields import SPLITS
from evenglot.corpus.artefacts import fingerprint, key_of
from evenglot.corpus.given import given_hash
from evenglot.corpus.read import paths_of
from evenglot.files import digest
from evenglot.text_file import Corpus, Sides


def settings_key(config: Config) -> str:
    """The hash of all that the content of a store depends on: settings, and files as they are now."""
    splits = ((corpus, split) for corpus in config.data.corpora for split in SPLITS)
    files = [found for direction, split in splits if (found := config.data.files(direction, split)) is not None]
    parts = config.model_dump(include={"data", "clean", "vocabulary", "store"}, by_alias=True)
    parts["store"] = {key: value for key, value in parts["store"].items() if key not in ("folder", "threads")}
    if not parts["data"]["codes"]:
        del parts["data"]["codes"]  # stores of earlier versions do not have it
    if not parts["data"]["corpora"]:
        del parts["data"]["corpora"]
    del parts["vocabulary"]["from"]  # nor this, and its place does not matter
    if (given := given_hash(config)) is not None:
        parts["tokenizer"] = given
    return key_of(parts, [identity(found) for found in files])


def identity(corpus: Corpus) -> list[Any]:
    """What tells whether the text changed. That of one pair of files is as in stores of earlier versions."""
    parts = [_identity_of(files) for files in corpus]
    return parts[0] if len(parts) == 1 else parts


def _identity_of(files: Sides) -> list[Any]:
    if files[0].kind == "dataset":
        return [[fingerprint(path) for path in paths_of([files])], [file.column for file in files]]
    return [[fingerprint(file.path), file.column] for file in files]


def digest_of(mask: NDArray[np.bool_]) -> str:
    """The hash of a choice of pairs."""
    return digest(np.packbits(mask).tobytes())
