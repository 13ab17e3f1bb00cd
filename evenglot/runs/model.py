"""The model in a checkpoint, built from its description and compared with its weights before memory is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evenglot.model import families
from evenglot.model.families import PretrainedError
from evenglot.model.interface import TranslationModel
from evenglot.model.pretrained import build_pretrained, load_pretrained, untie
from evenglot.model.shape import MOST_POSITIONS, Shape
from evenglot.model.transformer import Transformer
from evenglot.records import read_record
from evenglot.runs.checkpoint import MODEL, STATE, Checkpoint, Content, DamagedCheckpointError
from evenglot.wording import one_line

LAYERS = ("encoder_layers", "decoder_layers", "num_layers", "num_decoder_layers")  # in descriptions of transformers


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
