"""Vocabularies that are given instead of learned: those of another run, or SentencePiece models in a folder.

Their subwords and ids stay as they are. Tags that they lack are added at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from evenglot.config import Config, ConfigError, load_config
from evenglot.config.given import given_folder
from evenglot.corpus.artefacts import key_of
from evenglot.corpus.pretrained import tokenizer_hash
from evenglot.corpus.read import CorpusError
from evenglot.directions import SIDES, Side, tag_kind
from evenglot.files import digest
from evenglot.reading import UnreadableError, read_bytes
from evenglot.symbols import EOS, PAD, UNK

CONTROL = 3  # the type of a piece that never occurs in text


def given_hash(config: Config) -> str | None:
    """A hash of the vocabularies or the tokenizer that a configuration names; None if they are learned."""
    folder = given_folder(config)
    if folder is not None:
        return key_of({side: digest(model) for side, model in _read(folder).items()})
    return None if config.model.init is None else tokenizer_hash(Path(config.model.init))


def given_models(config: Config, tags: Sequence[str]) -> dict[Side, bytes] | None:
    """The SentencePiece models that a configuration names, with all these tags; None if it names none."""
    folder = given_folder(config)
    if folder is None:
        return None
    if config.model.init is not None:
        _refuse_other_tags(config, Path(config.model.init))
    found = _read(folder)
    is_joint = found["source"] == found["target"]
    found["source"] = with_tags(found["source"], tags)  # tags stand before the source; the output layer needs none
    if is_joint:
        found["target"] = found["source"]
    for side, model in found.items():
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        if (pieces.eos_id(), pieces.unk_id(), pieces.pad_id()) != (EOS, UNK, PAD):
            raise CorpusError(
                f"{folder / f'{side}.model'}: </s>, <unk> and <pad> must have the ids {EOS}, {UNK} and {PAD}, as in "
                "vocabularies that evenglot learns"
            )
    return found


def with_tags(model: bytes, tags: Iterable[str]) -> bytes:
    """A SentencePiece model with these control symbols; those that it lacks are added at the end.

    The file is a protocol buffer, in which pieces are a repeated field: more of them may follow anywhere.
    """
    known = tag_ids(model)
    return model + b"".join(_piece(tag) for tag in tags if tag not in known)


def tag_ids(model: bytes) -> dict[str, int]:
    """The control symbols of a SentencePiece model, but </s>, <unk> and <pad>, with their ids."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    return {pieces.id_to_piece(i): i for i in range(PAD + 1, len(pieces)) if pieces.is_control(i)}


def _piece(name: str) -> bytes:
    """The entry of a control symbol: field 1 of the model, with its name (1), score 0.0 (2) and type (3)."""
    text = name.encode()
    entry = b"\x0a" + _varint(len(text)) + text + b"\x15\x00\x00\x00\x00" + b"\x18" + _varint(CONTROL)
    return b"\x0a" + _varint(len(entry)) + entry


def _varint(number: int) -> bytes:
    """A whole number in groups of seven bits, the lowest first."""
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + _varint(number // 128)


def _read(folder: Path) -> dict[Side, bytes]:
    models: dict[Side, bytes] = {}
    for side in SIDES:
        file = folder / f"{side}.model"
        try:
            models[side] = read_bytes(file)
            sentencepiece.SentencePieceProcessor(model_proto=models[side])
        except UnreadableError as error:
            raise CorpusError(f"{file}: {error}") from error
        except OSError as error:
            raise CorpusError(f"{file}: cannot be read: {(error.strerror or str(error)).lower()}") from error
        except RuntimeError as error:
            raise CorpusError(f"{file}: not a SentencePiece model") from error
    return models


def _refuse_other_tags(config: Config, run: Path) -> None:
    """Refuse to continue a run whose tags name the source language with directions whose tags name the target."""
    try:
        before = tag_kind(load_config(run / "config.yaml", check_files=False, hints=False).data.directions)
    except ConfigError as error:
        raise CorpusError(f"{run}: cannot be continued: {error}") from error
    now = tag_kind(config.data.directions)
    if before != now:
        raise CorpusError(
            f"model.init: the tags of {run} name the {before} language, but those of data.directions would name the "
            f"{now} language: with one target language for all directions tags name the source, otherwise the target"
        )
