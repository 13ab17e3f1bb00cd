"""Checkpoints: folders that are complete or absent, that notice damage, and hold no code (safetensors and JSON only).

checkpoints/step-00001200/model.safetensors       weights by the name of the parameter
checkpoints/step-00001200/optimizer.safetensors   tensors of the optimizer; an averaged model has none
checkpoints/step-00001200/state.json              step, score, sizes and checksums, and the rest of the run's state
checkpoints/average/...                           other names are models too, but not steps of the run
"""

from __future__ import annotations

import json
import math
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from evenglot.files import UNFINISHED, checksum, digest, finished_folder, remove_folder, write_json
from evenglot.model.transformer import Shape, Transformer

MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
STEP_NAME = re.compile(r"step-(\d{8,})")
OTHER_NAME = re.compile(r"(?!step-)\w[\w.-]*(?<!\.unfinished)")


class DamagedCheckpointError(ValueError):
    """A checkpoint is incomplete or not what was written; the message says which file."""


@dataclass(frozen=True)
class Content:
    """All that a checkpoint holds. Tensors are on the CPU."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # empty if none was saved
    state: dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A finished checkpoint on disk; nothing but its state.json has been read."""

    folder: Path
    step: int
    score: float | None  # of this model in validation: smaller is better; None: not validated

    def read(self) -> Content:
        """Everything, checked against the checksums; DamagedCheckpointError if anything is amiss."""
        about = _read_state(self.folder)
        optimizer = _read_tensors(self.folder, OPTIMIZER, about) if OPTIMIZER in about["files"] else {}
        return Content(_read_tensors(self.folder, MODEL, about), optimizer, about["state"])

    def read_model(self) -> dict[str, Tensor]:
        """The weights alone, checked in the same way."""
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
    """Write a checkpoint into the folder `root`, in place of an older one of that name.

    `state` is plain JSON; its floats come back exactly. If the disk is full, an OSError says so: older checkpoints
    are intact, and nothing is left of the new one. Tensors must not share memory.
    """
    folder = root / _name_for(step, name)
    about = {"step": step, "score": _score_to_json(score), "state": _plain(state)}
    try:
        with finished_folder(folder) as unfinished:
            write_tensors(unfinished / MODEL, model)
            if optimizer is not None:
                write_tensors(unfinished / OPTIMIZER, optimizer)
            about["files"] = {file.name: [file.stat().st_size, checksum(file)] for file in sorted(unfinished.iterdir())}
            write_json(unfinished / STATE, {**about, "checksum": _digest_of(about)})
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        advice = "free some space or choose another folder; older checkpoints are intact"
        raise OSError(f"{folder}: the checkpoint cannot be saved: {reason}; {advice}") from error
    return Checkpoint(folder, step, None if score is None else float(score))


def _name_for(step: int, name: str | None) -> str:
    if step < 0:
        raise ValueError(f"step is {step}; it must not be negative")
    if name is not None and not OTHER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a checkpoint; use letters and digits, and no `step-` before them")
    return name or f"step-{step:08d}"


def write_tensors(file: Path, tensors: Mapping[str, Tensor], about: dict[str, str] | None = None) -> None:
    """As safetensors, for whom all files are. OSError if they cannot be written."""
    file.touch()
    usual_mode = file.stat().st_mode  # safetensors would let nobody but the owner read the file
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file, about)
        file.chmod(usual_mode)
    except SafetensorError as error:  # its word for any failure to write: "Error while ...: I/O error: No space left"
        raise OSError(str(error).rpartition(": ")[2]) from error


def _plain(state: Mapping[str, Any]) -> Any:
    """The state as it will be read again. Refuses what JSON would lose or change."""
    if not _all_keys_are_text(state):
        raise ValueError("the state of a checkpoint has a key that is not text; JSON would make it so")
    try:
        return json.loads(json.dumps(dict(state), allow_nan=False))
    except (ValueError, TypeError) as error:
        raise ValueError(f"the state of a checkpoint must be plain JSON with finite numbers: {error}") from error


def _all_keys_are_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _all_keys_are_text(inner) for key, inner in value.items())
    return not isinstance(value, list | tuple) or all(map(_all_keys_are_text, value))


def _score_to_json(score: float | None) -> float | str | None:
    """A model that diverged may have a score that JSON has no number for: it is written as text."""
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
    """The content of state.json, checked and with its types as expected, whatever was in the file."""
    file = folder / STATE
    try:
        about: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        intact = about.pop("checksum") == _digest_of(about) and _has_expected_types(about)
        about["score"] = None if about["score"] is None else float(about["score"])
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"{file}: missing") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedCheckpointError(f"{file}: damaged or unreadable") from error
    if not intact:
        raise DamagedCheckpointError(f"{file}: changed since it was written")
    named = STEP_NAME.fullmatch(folder.name)
    if named and int(named[1]) != about["step"]:
        raise DamagedCheckpointError(f"{file}: is of step {about['step']}, not of the one its folder is named after")
    return about


def _has_expected_types(about: dict[str, Any]) -> bool:
    return (
        type(about["step"]) is int
        and isinstance(about["state"], dict)
        and isinstance(about["files"], dict)
        and {MODEL} <= about["files"].keys() <= {MODEL, OPTIMIZER}
        and all(isinstance(entry, list) and len(entry) == 2 for entry in about["files"].values())
    )


def _read_tensors(folder: Path, name: str, about: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors from a file with the size and checksum that state.json gives.

    The file is read, not mapped: what was checked is what is used, even if the folder is deleted meanwhile.
    """
    file, (size, crc) = folder / name, about["files"][name]
    try:
        content = file.read_bytes() if file.stat().st_size == size else b""
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"{file}: missing") from error
    except OSError as error:
        raise DamagedCheckpointError(f"{file}: unreadable: {(error.strerror or str(error)).lower()}") from error
    if len(content) != size or zlib.crc32(content) != crc:
        raise DamagedCheckpointError(f"{file}: changed since it was written")
    try:
        return load(content)
    except MemoryError:
        raise
    except Exception as error:  # whatever the parser makes of bytes that were never a checkpoint
        raise DamagedCheckpointError(f"{file}: does not hold tensors") from error


# ------------------------------------------------------------------------------------------------------ choose


def checkpoints(root: Path) -> list[Checkpoint]:
    """Those of the steps of a run, oldest first. Weights are not read; one without an intact state.json is left out."""
    return _opened(_step_folders(root))


def latest(root: Path, warn: Callable[[str], object]) -> tuple[Checkpoint, Content] | None:
    """The newest one that is intact, with its content; None if the run has none. Damaged ones are warned of."""
    folders = _step_folders(root)
    for folder in reversed(folders):
        try:
            checkpoint = open_checkpoint(folder)
            return checkpoint, checkpoint.read()
        except DamagedCheckpointError as error:
            warn(f"{error}; this checkpoint is skipped")
    if folders:
        raise DamagedCheckpointError(f"{root}: none of its checkpoints is intact; restore one or begin a new run")
    return None


def best(root: Path) -> Checkpoint | None:
    """The one with the lowest score, averages included, the earliest of equals; without scores, the newest step."""
    steps, others = checkpoints(root), _opened(_other_folders(root))
    return next(iter(_by_score([*steps, *others])), None) or max(steps or others, key=lambda c: c.step, default=None)


def _by_score(found: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Best first; earliest first among equals; those without a finite score are left out."""
    scored = [(c.score, c.step, c) for c in found if c.score is not None and math.isfinite(c.score)]
    return [checkpoint for *_, checkpoint in sorted(scored, key=lambda entry: entry[:2])]


def _step_folders(root: Path) -> list[Path]:
    named = ((STEP_NAME.fullmatch(folder.name), folder) for folder in _folders(root))
    return [folder for _, folder in sorted((int(name[1]), folder) for name, folder in named if name)]


def _other_folders(root: Path) -> list[Path]:
    return [folder for folder in _folders(root) if OTHER_NAME.fullmatch(folder.name)]


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _opened(folders: Iterable[Path]) -> list[Checkpoint]:
    found = []
    for folder in folders:
        try:
            found.append(open_checkpoint(folder))
        except DamagedCheckpointError:  # `latest` warns of it, `read` refuses it
            continue
    return found


# --------------------------------------------------------------------------------------------- prune, average


def prune(root: Path, keep_last: int, keep_best: int, superseded: Iterable[int] = ()) -> None:
    """Delete checkpoints of steps but the newest and the best so many, and what killed processes left behind.

    The `superseded` steps go in any case.

    Those with other names stay. So do those whose state.json cannot be read: a person may still want to look at them.
    """
    if keep_last < 0 or keep_best < 0:
        raise ValueError(f"keep_last is {keep_last} and keep_best is {keep_best}; they must not be negative")
    for folder in _folders(root):
        if folder.name.endswith(UNFINISHED):
            shutil.rmtree(folder, ignore_errors=True)
    steps = set(superseded)
    every = checkpoints(root)
    found = [checkpoint for checkpoint in every if checkpoint.step not in steps]
    newest = found[len(found) - min(keep_last, len(found)) :]
    keep = {checkpoint.folder for checkpoint in (*newest, *_by_score(found)[:keep_best])}
    for checkpoint in every:
        if checkpoint.folder not in keep:
            remove_folder(checkpoint.folder)


def average(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights, summed in float64, as the data type of the first."""
    if not checkpoints:
        raise ValueError("no checkpoints to average")
    first = checkpoints[0].read_model()
    total = {name: tensor.double() for name, tensor in first.items()}
    for checkpoint in checkpoints[1:]:
        model = checkpoint.read_model()
        _refuse_another_shape(first, model, checkpoint.folder, checkpoints[0].folder)
        for name, tensor in model.items():
            total[name] = total[name] + tensor.double()
    return {name: _as_type(total[name] / len(checkpoints), first[name].dtype) for name in first}


def _as_type(mean: Tensor, dtype: torch.dtype) -> Tensor:
    return mean.to(dtype) if dtype.is_floating_point else mean.round().to(dtype)


def _refuse_another_shape(first: Mapping[str, Tensor], model: Mapping[str, Tensor], here: Path, there: Path) -> None:
    for name in sorted(first.keys() | model.keys()):
        if name not in model or name not in first:
            raise ValueError(f"{name} is only in {here if name in model else there}; these models cannot be averaged")
        if model[name].shape != first[name].shape:
            shapes = f"{list(model[name].shape)} in {here}, {list(first[name].shape)} in {there}"
            raise ValueError(f"{name} is {shapes}; these models cannot be averaged")


def fingerprint(checkpoint: Checkpoint) -> str:
    """A short hash of the file of weights: the same for the same model, whatever else was saved with it."""
    file, code = checkpoint.folder / MODEL, blake2b(digest_size=8)
    try:
        with file.open("rb") as content:
            while chunk := content.read(1 << 22):
                code.update(chunk)
    except OSError as error:
        raise DamagedCheckpointError(f"{file}: unreadable: {(error.strerror or str(error)).lower()}") from error
    return code.hexdigest()


def load_model(chosen: Checkpoint) -> Transformer:
    """The model of a checkpoint, ready to use."""
    return model_of(chosen.read())


def model_of(content: Content) -> Transformer:
    """The model in the content of a checkpoint, ready to use."""
    model = Transformer(Shape(**content.state["shape"]))
    model.load_state_dict(content.model)
    return model.eval()
