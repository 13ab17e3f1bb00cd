"""The SentencePiece models of a run, verified against a checkpoint: with others, translations would be wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sentencepiece

from evenglot.corpus.artefacts import DamagedError
from evenglot.directions import SIDES, Side
from evenglot.runs.checkpoint import Checkpoint
from evenglot.runs.run import Run

ADVICE = "resume the run with `evenglot train --resume`, which copies it from the store again, or restore a backup"


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A SentencePiece model, and the content of its file."""

    content: bytes
    pieces: sentencepiece.SentencePieceProcessor


def read_vocabularies(run: Run, chosen: Checkpoint) -> dict[Side, Vocabulary]:
    """The vocabularies of both sides; DamagedError if one is not that of the checkpoint.

    Checkpoints of older versions have no hashes; then at least the number of subwords must be the model's.
    """
    state = chosen.read_state()
    return {side: _read(run, side, state) for side in SIDES}


def _read(run: Run, side: Side, state: Mapping[str, Any]) -> Vocabulary:
    file = run.vocabulary_file(side)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DamagedError(file, f"cannot be read: {(error.strerror or str(error)).lower()}", ADVICE) from error
    hashes = state.get("vocabulary")
    if hashes is not None and hashlib.sha256(content).hexdigest() != hashes[side]:
        raise DamagedError(file, "changed since this run started", ADVICE)
    pieces = sentencepiece.SentencePieceProcessor()
    try:
        pieces.load_from_serialized_proto(content)
    except RuntimeError as error:
        raise DamagedError(file, "not a SentencePiece model", ADVICE) from error
    if len(pieces) != state["shape"][f"{side}_pieces"]:
        raise DamagedError(file, f"has {len(pieces)} subwords, which do not fit the model", ADVICE)
    return Vocabulary(content, pieces)
