"""Checkpoints: folders written atomically and protected by checksums, with safetensors and JSON files only (no code).

checkpoints/step-00001200/model.safetensors       weights by parameter name; with model.lora, only those of adapters
checkpoints/step-00001200/optimizer.safetensors   optimizer state; averaged models have none
checkpoints/step-00001200/state.json              step, score, file sizes and checksums, and the other state of the run
checkpoints/average/...                           models that are not a step of the run have other names
"""

from __future__ import annotations

import errno
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from evenglot.files import checksum, digest, finished_folder, write_json
from evenglot.model.shape import Shape
from evenglot.reading import LaterFormatError, UnreadableError, parse_json, read_bytes, read_json, refuse_later
from evenglot.records import read_record

FORMAT = 1  # of all files; state.json of earlier checkpoints does not say it
MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
STEP_NAME = re.compile(r"step-(\d{8,})")
OTHER_NAME = re.compile(r"(?!step-)\w[\w.-]*(?<!\.unfinished)")


class DamagedCheckpointError(ValueError):
    """A checkpoint is incomplete or damaged; the message has the file."""


@dataclass(frozen=True)
class Content:
    """The content of a checkpoint. Tensors are on the CPU."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # empty if none was saved
    state: dict[str, Any]


@dataclass(frozen=True)
class _Described:
    """What the state of a training says about its model, for those who translate with it. Older ones lack some."""

    shape: Shape | None = None
    vocabulary: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of files by name
    pretrained: Mapping[str, Any] | None = None
    lora: Mapping[str, Any] | None = None
    init: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk, of which only state.json has been read."""

    folder: Path
    step: int
    score: float | None  # validation score, lower is better; None: not validated

    def read(self) -> Content:
        """Read and verify all files; DamagedCheckpointError if one is damaged."""
        about = _read_state(self.folder)
        optimizer = _read_tensors(self.folder, OPTIMIZER, about) if OPTIMIZER in about["files"] else {}
        return Content(_read_tensors(self.folder, MODEL, about), optimizer, about["state"])

    def read_state(self) -> dict[str, Any]:
        """Read and verify the state only."""
        state: dict[str, Any] = _read_state(self.folder)["state"]
        return state

    def read_model(self) -> dict[str, Tensor]:
        """Read and verify the weights only."""
        return _read_tensors(self.folder, MODEL, _read_state(self.folder))


# ------------------------------------------------------------------------------------------------------- write


def save(
    root: Path,
    step: int,
    *,
    model: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor] | None,
    state: Mapping[str, Any],
    score: float | None,
    name: str | None = None,
) -> Checkpoint:
    """Write a checkpoint to the folder `root`, replacing an older one of the same name.

    `state` must be plain JSON; floats are restored exactly. Raises OSError if the disk is full: older checkpoints stay
    intact, and the incomplete one is removed. Tensors must not share memory.
    """
    folder = root / _name_for(step, name)
    about = {"format": FORMAT, "step": step, "score": _score_to_json(score), "state": _plain(state)}
    try:
        with finished_folder(folder) as unfinished:
            write_tensors(unfinished / MODEL, model)
            if optimizer is not None:
                write_tensors(unfinished / OPTIMIZER, optimizer)
            about["files"] = {file.name: [file.stat().st_size, checksum(file)] for file in sorted(unfinished.iterdir())}
            write_json(unfinished / STATE, {**about, "checksum": _digest_of(about)})
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        advice = "free some space or choose another folder (older checkpoints are intact)"
        raise OSError(f"{folder}: cannot save the checkpoint: {reason}; {advice}") from error
    return Checkpoint(folder, step, None if score is None else float(score))


def _name_for(step: int, name: str | None) -> str:
    if step < 0:
        raise ValueError(f"step: must not be negative, got {step}")
    if name is not None and not OTHER_NAME.fullmatch(name):
        raise ValueError(f"name: {name!r} cannot name a checkpoint; use letters and digits, without a prefix `step-`")
    return name or f"step-{step:08d}"


def write_tensors(file: Path, tensors: Mapping[str, Tensor], about: dict[str, str] | None = None) -> None:
    """Write a safetensors file with the usual permissions; OSError if that fails."""
    file.touch()
    usual_mode = file.stat().st_mode  # safetensors makes files readable by the owner only
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file, about)
        file.chmod(usual_mode)
    except SafetensorError as error:  # any write failure: "Error while ...: I/O error: No space left"
        raise OSError(errno.EIO, str(error).rpartition(": ")[2], str(file)) from error


def _plain(state: Mapping[str, Any]) -> Any:
    """The state as it will be read from JSON; ValueError if JSON cannot represent it exactly."""
    if not _all_keys_are_text(state):
        raise ValueError("state: all keys must be strings, as JSON would convert them")
    try:
        return parse_json(json.dumps(dict(state), allow_nan=False).encode())
    except (ValueError, TypeError) as error:
        raise ValueError(f"state: must be plain JSON with finite numbers: {error}") from error


def _all_keys_are_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _all_keys_are_text(inner) for key, inner in value.items())
    return not isinstance(value, list | tuple) or all(map(_all_keys_are_text, value))


def _score_to_json(score: float | None) -> float | str | None:
    """Scores that are not finite (of a model that diverged) are written as text, as JSON has no number for them."""
    if score is None:
        return None
    return float(score) if math.isfinite(score) else str(float(score))


def _digest_of(about: Mapping[str, Any]) -> str:
    return digest(json.dumps(about, sort_keys=True).encode())


# -------------------------------------------------------------------------------------------------------- read


def open_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder; DamagedCheckpointError if it has no intact state.json."""
    about = _read_state(folder)
    return Checkpoint(folder, about["step"], about["score"])


def _read_state(folder: Path) -> dict[str, Any]:
    """Read state.json and verify its checksum and types."""
    file = folder / STATE
    try:
        about: dict[str, Any] = read_json(file)
        intact = about.pop("checksum") == _digest_of(about)
        if intact:
            refuse_later(about, file, FORMAT)
        intact = intact and _has_expected_types(about)
        about["score"] = None if about["score"] is None else float(about["score"])
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"{file}: missing") from error
    except LaterFormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedCheckpointError(f"{file}: damaged or unreadable") from error
    if not intact:
        raise DamagedCheckpointError(f"{file}: changed since it was written")
    try:
        read_record(_Described, about["state"])
    except ValueError as error:
        raise DamagedCheckpointError(f"{file}: {error}") from error
    named = STEP_NAME.fullmatch(folder.name)
    if named and int(named[1]) != about["step"]:
        raise DamagedCheckpointError(f"{file}: has step {about['step']}, which does not match the name of its folder")
    return about


def _has_expected_types(about: dict[str, Any]) -> bool:
    sizes = about["files"].values() if isinstance(about["files"], dict) else ()
    return (
        about.get("format", 1) == 1
        and type(about["step"]) is int
        and about["step"] >= 0
        and isinstance(about["state"], dict)
        and isinstance(about["files"], dict)
        and {MODEL} <= about["files"].keys() <= {MODEL, OPTIMIZER}
        and all(isinstance(entry, list) and [type(each) for each in entry] == [int, int] for entry in sizes)
    )


def _read_tensors(folder: Path, name: str, about: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read tensors from a file and verify its size and checksum against state.json.

    The file is read, not memory-mapped, so the verified bytes are used even if the folder is deleted meanwhile.
    """
    file, (size, crc) = folder / name, about["files"][name]
    try:
        content = read_bytes(file) if file.stat().st_size == size else b""
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"{file}: missing") from error
    except UnreadableError as error:
        raise DamagedCheckpointError(f"{file}: {error}") from error
    except OSError as error:
        raise DamagedCheckpointError(f"{file}: unreadable: {(error.strerror or str(error)).lower()}") from error
    if len(content) != size or zlib.crc32(content) != crc:
        raise DamagedCheckpointError(f"{file}: changed since it was written")
    try:
        return load(content)
    except MemoryError:
        raise
    except Exception as error:  # the parser may raise anything for arbitrary bytes
        raise DamagedCheckpointError(f"{file}: not a valid safetensors file") from error


def fingerprint(checkpoint: Checkpoint) -> str:
    """A short hash of the weights file; it does not depend on the rest of the checkpoint."""
    file, code = checkpoint.folder / MODEL, blake2b(digest_size=8)
    try:
        with file.open("rb") as content:
            while chunk := content.read(1 << 22):
                code.update(chunk)
    except OSError as error:
        raise DamagedCheckpointError(f"{file}: unreadable: {(error.strerror or str(error)).lower()}") from error
    return code.hexdigest()
