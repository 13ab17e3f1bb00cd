"""The vocabularies of a run, verified against a checkpoint: with others, translations would be wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from evenglot.config.data import DataSettings
from evenglot.corpus.artefacts import DamagedError
from evenglot.corpus.tokenizers import SentencePieceTokenizers, Tokenizers, open_tokenizers
from evenglot.directions import SIDES, Side, tag_kind
from evenglot.reading import UnreadableError, read_bytes
from evenglot.runs.checkpoint import Checkpoint
from evenglot.runs.run import Run

ADVICE = "resume the run with `evenglot train --resume`, which copies it from the store again, or restore a backup"


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A SentencePiece model, and the content of its file."""

    content: bytes
    pieces: sentencepiece.SentencePieceProcessor


def open_verified(run: Run, chosen: Checkpoint, data: DataSettings) -> Tokenizers:
    """The tokenizers of a run; DamagedError if a file is not that of the checkpoint."""
    state = chosen.read_state()
    if "pretrained" in state:
        verify_vocabulary(run, state)
        return open_tokenizers(run.vocabulary, data)
    source, target = read_vocabularies(run, chosen).values()
    return SentencePieceTokenizers((source.content, target.content), tag_kind(data.directions))


def verify_vocabulary(run: Run, state: Mapping[str, Any]) -> None:
    """Raise DamagedError if a file is missing or was changed; checkpoints of older versions have no hashes."""
    for name, expected in state.get("vocabulary", {}).items():
        file = run.vocabulary / name
        if hashlib.sha256(_content(file)).hexdigest() != expected:
            raise DamagedError(file, "changed since this run started", ADVICE)


def read_vocabularies(run: Run, chosen: Checkpoint) -> dict[Side, Vocabulary]:
    """The SentencePiece models of both sides; DamagedError if one is not that of the checkpoint.

    Checkpoints of older versions have no hashes; then at least the number of subwords must be the model's.
    """
    state = chosen.read_state()
    verify_vocabulary(run, state)
    return {side: _read(run, side, state) for side in SIDES}


def _read(run: Run, side: Side, state: Mapping[str, Any]) -> Vocabulary:
    file = run.vocabulary_file(side)
    content = _content(file)
    pieces = sentencepiece.SentencePieceProcessor()
    try:
        pieces.load_from_serialized_proto(content)
    except RuntimeError as error:
        raise DamagedError(file, "not a SentencePiece model", ADVICE) from error
    if len(pieces) != state["shape"][f"{side}_pieces"]:
        raise DamagedError(file, f"has {len(pieces)} subwords, which do not fit the model", ADVICE)
    return Vocabulary(content, pieces)


def _content(file: Path) -> bytes:
    try:
        return read_bytes(file)
    except UnreadableError as error:
        raise DamagedError(file, str(error), ADVICE) from error
    except OSError as error:
        raise DamagedError(file, f"cannot be read: {(error.strerror or str(error)).lower()}", ADVICE) from error
