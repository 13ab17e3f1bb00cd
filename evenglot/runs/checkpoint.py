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
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from evenglot.files import REPLACED, UNFINISHED, checksum, digest, finished_folder, remove_folder, restore, write_json
from evenglot.model import families
from evenglot.model.families import PretrainedError
from evenglot.model.interface import TranslationModel
from evenglot.model.pretrained import build_pretrained, load_pretrained, untie
from evenglot.model.shape import MOST_POSITIONS, Shape
from evenglot.model.transformer import Transformer
from evenglot.reading import LaterFormatError, UnreadableError, parse_json, read_bytes, read_json, refuse_later
from evenglot.records import read_record
from evenglot.wording import one_line

FORMAT = 1  # of all files; state.json of earlier checkpoints does not say it
MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
STEP_NAME = re.compile(r"step-(\d{8,})")
LAYERS = ("encoder_layers", "decoder_layers", "num_layers", "num_decoder_layers")  # in descriptions of transformers
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


# ------------------------------------------------------------------------------------------------------ choose


def checkpoints(root: Path) -> list[Checkpoint]:
    """The checkpoints of the steps of a run, oldest first, except those with a damaged state.json. Reads no weights."""
    return _opened(_step_folders(root))


def latest(root: Path, warn: Callable[[str], object]) -> tuple[Checkpoint, Content] | None:
    """The newest intact checkpoint with its content; None if there are no checkpoints. Warns of damaged ones.

    Of those that are older, only the state is looked at.
    """
    found, folders = None, _step_folders(root)
    for folder in reversed(folders):
        try:
            checkpoint = open_checkpoint(folder)
            found = found or (checkpoint, checkpoint.read())
        except DamagedCheckpointError as error:
            warn(f"{error}; skipping this checkpoint")
    if folders and found is None:
        raise DamagedCheckpointError(f"{root}: all checkpoints are damaged; restore a backup or start a new run")
    return found


def find(root: Path, which: str) -> Checkpoint | None:
    """The checkpoint with this name: best, last, average, or a number of updates; None if there is none.

    Another never takes its place: DamagedCheckpointError if it is damaged, or if one that might be the best is.
    """
    if which == "best":
        _refuse_damaged(root)
        return best(root)
    by_name = {folder.name: folder for folder in _other_folders(root)}
    for folder in _step_folders(root):
        by_name[str(int(folder.name.removeprefix("step-")))] = by_name["last"] = folder
    return open_checkpoint(by_name[which]) if which in by_name else None


def _refuse_damaged(root: Path) -> None:
    for folder in (*_step_folders(root), *_other_folders(root)):
        try:
            open_checkpoint(folder)
        except DamagedCheckpointError as error:
            if folder.is_dir():  # else a running training has just deleted it
                raise DamagedCheckpointError(
                    f"{error}; this may be the best checkpoint: choose another with --which, or delete its folder to "
                    "use the best of the others"
                ) from error


def best(root: Path) -> Checkpoint | None:
    """The checkpoint with the lowest score, including averages (ties: the earliest); without scores, the newest one.

    Those with a damaged state.json are left out.
    """
    steps, others = checkpoints(root), _opened(_other_folders(root))
    return next(iter(_by_score([*steps, *others])), None) or max(steps or others, key=lambda c: c.step, default=None)


def _by_score(found: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Best first (ties: earliest first), without those that have no finite score."""
    scored = [(c.score, c.step, c) for c in found if c.score is not None and math.isfinite(c.score)]
    return [checkpoint for *_, checkpoint in sorted(scored, key=lambda entry: entry[:2])]


def _step_folders(root: Path) -> list[Path]:
    named = ((STEP_NAME.fullmatch(folder.name), folder) for folder in _folders(root))
    return [folder for _, folder in sorted((int(name[1]), folder) for name, folder in named if name)]


def _other_folders(root: Path) -> list[Path]:
    """Folders of averages, intact or damaged; not those that somebody else put there."""
    named = (folder for folder in _folders(root) if OTHER_NAME.fullmatch(folder.name))
    return [folder for folder in named if (folder / STATE).exists() or (folder / MODEL).exists()]


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _opened(folders: Iterable[Path]) -> list[Checkpoint]:
    found = []
    for folder in folders:
        try:
            found.append(open_checkpoint(folder))
        except DamagedCheckpointError:  # `latest` warns of it, `read` raises
            continue
    return found


# --------------------------------------------------------------------------------------------- prune, average


def prune(root: Path, keep_last: int, keep_best: int, superseded: Iterable[int] = ()) -> None:
    """Delete all step checkpoints except the `keep_last` newest and the `keep_best` best, and unfinished folders.

    The `superseded` steps are deleted in any case. Checkpoints with other names and those whose state.json cannot be
    read are kept, so that they can be inspected.
    """
    if keep_last < 0 or keep_best < 0:
        raise ValueError(f"keep_last, keep_best: must not be negative, got {keep_last} and {keep_best}")
    tidy(root)
    steps = set(superseded)
    every = checkpoints(root)
    found = [checkpoint for checkpoint in every if checkpoint.step not in steps]
    newest = found[len(found) - min(keep_last, len(found)) :]
    keep = {checkpoint.folder for checkpoint in (*newest, *_by_score(found)[:keep_best])}
    for checkpoint in every:
        if checkpoint.folder not in keep:
            remove_folder(checkpoint.folder)


def tidy(root: Path) -> None:
    """Put right what a process left that was killed while writing: no checkpoint is lost, nothing unfinished stays."""
    for folder in _folders(root):
        if folder.name.endswith(REPLACED):
            restore(folder.with_name(folder.name.removesuffix(REPLACED)))
    for folder in _folders(root):
        if folder.name.endswith(UNFINISHED):
            shutil.rmtree(folder, ignore_errors=True)


def average(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights, computed in float64 and converted to the data type of the first checkpoint."""
    if not checkpoints:
        raise ValueError("checkpoints: at least one is needed for an average")
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
            where = here if name in model else there
            raise ValueError(f"{name}: only in {where}; models to average must have the same parameters")
        if model[name].shape != first[name].shape:
            shapes = f"{list(model[name].shape)} in {here}, {list(first[name].shape)} in {there}"
            raise ValueError(f"{name}: {shapes}; models to average must have the same shapes")


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


def load_model(chosen: Checkpoint, init: str | None = None) -> TranslationModel:
    """The model of a checkpoint, in evaluation mode; `init`: `model.init` of its run, which adapters need."""
    try:
        return model_of(chosen.read(), chosen.folder, init)
    except DamagedCheckpointError as error:
        raise DamagedCheckpointError(f"{error}; choose another checkpoint with --which, or restore a backup") from error


def model_of(content: Content, folder: Path, init: str | None = None) -> TranslationModel:
    """The model in the content of the checkpoint in a folder, in evaluation mode; `init` as in `load_model`.

    DamagedCheckpointError if the weights do not fit its description, before memory is allocated for it.
    """
    state = content.state
    if (lora := state.get("lora")) is not None:
        adapted = load_pretrained(_verified_init(init, state.get("init")), lora=lora)
        refuse_misfit(adapted, content.model, folder)
        adapted.load_state_dict(content.model)
        return adapted.merge().eval()
    if (pretrained := state.get("pretrained")) is not None:
        model: TranslationModel = _pretrained(pretrained, content.model, folder)
    else:
        model = _transformer(content, folder)
    refuse_misfit(model, content.model, folder)
    model.load_state_dict(content.model)
    return model.eval()


def _verified_init(init: str | None, expected: str | None) -> Path:
    """The folder of the pretrained model that adapters were trained for; PretrainedError if it has another one."""
    folder = Path(init or "")
    try:
        found = families.fingerprint(folder)
    except (OSError, PretrainedError):
        found = "none"
    if found != expected:
        raise PretrainedError(
            f"{folder}: not the checkpoint that the adapters of this run were trained for; restore it, or correct "
            "model.init in config.yaml of the run"
        )
    return folder


def _pretrained(described: Mapping[str, Any], weights: Mapping[str, Tensor], folder: Path) -> TranslationModel:
    layers = sum(number for key in LAYERS if type(number := described.get(key)) is int)
    sizes = [MOST_POSITIONS, *(size for tensor in weights.values() for size in tensor.shape)]
    if layers > len(weights) or any(type(each) is int and each > max(sizes) for each in described.values()):
        raise DamagedCheckpointError(f"{folder / STATE}: describes a larger model than {MODEL} has")
    try:
        with torch.device("meta"):  # knows all sizes and takes no memory
            refuse_misfit(build_pretrained(described), weights, folder)
        return build_pretrained(described)
    except (DamagedCheckpointError, MemoryError, ModuleNotFoundError):
        raise
    except Exception as error:  # of a strange description, transformers raises anything
        raise DamagedCheckpointError(f"{folder / STATE}: `pretrained`: {one_line(error)}") from error


def _transformer(content: Content, folder: Path) -> Transformer:
    try:
        shape = read_record(Shape, content.state.get("shape"), "shape.")
    except ValueError as error:
        raise DamagedCheckpointError(f"{folder / STATE}: {error}") from error
    if shape.encoder_layers + shape.decoder_layers > len(content.model):
        raise DamagedCheckpointError(f"{folder / STATE}: describes more layers than {MODEL} has")
    with torch.device("meta"):  # knows all sizes and takes no memory
        refuse_misfit(Transformer(shape), content.model, folder)
    return Transformer(shape)


def refuse_misfit(model: TranslationModel, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Raise DamagedCheckpointError if these are not the weights of the model, by names and shapes."""
    untie(model, weights)  # the weights say which are tied
    expected, found = (
        {name: list(tensor.shape) for name, tensor in tensors.items()} for tensors in (model.state_dict(), weights)
    )
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise DamagedCheckpointError(
                f"{folder / MODEL}: {name}: expected {expected.get(name, 'nothing')}, got {found.get(name, 'nothing')}"
            )
