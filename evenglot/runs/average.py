"""The mean of the weights of several checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from evenglot.runs.checkpoint import Checkpoint


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
