"""`train.parallel: fsdp`: weights, gradients and optimizer state divided among the processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from evenglot.model.interface import TranslationModel
from evenglot.runs.checkpoint import Content
from evenglot.runs.model import model_of
from evenglot.training.parallel import Processes
from evenglot.training.parallel_modes import Flat, whole_weights


class Fsdp(Flat):
    """Fully sharded data parallelism (`fully_shard`).

    Gradients are reduced after every micro-batch, because whole gradients of several would need the memory that this
    mode is meant to save.
    """

    name = "fsdp"

    def __init__(self, model: TranslationModel, processes: Processes) -> None:
        if not hasattr(FSDPModule, "set_force_sum_reduction_for_comms"):
            raise ValueError(f"train.parallel: fsdp needs a newer torch than {torch.__version__}; use 'ddp'")
        mesh = init_device_mesh(processes.device.type, (processes.world,))
        units: list[list[nn.Module]] = [*model.units(), [model]]  # the last has the rest, such as the embeddings
        for together in units:
            part, *_ = fully_shard(together, mesh=mesh)
            part.set_gradient_divide_factor(1.0)  # sums, not means
            part.set_force_sum_reduction_for_comms(True)  # or the factor would be left to NCCL, which CPUs do not have
        self.model, self.processes = model, processes
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # nobody writes into it

    def sum_gradients(self) -> None:
        """The backward pass has done it."""

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Afterwards the parameters are those of the optimizer again, not the gathered ones."""
        yield
        if isinstance(self.model, FSDPModule):  # for mypy; it is
            self.model.reshard()

    def own_model(self) -> TranslationModel:
        """A copy: a layer that only some processes run would have to be gathered by all."""
        copy = model_of(Content(whole_weights(self.model), {}, dict(self.model.description())), Path())
        return copy.to(self.processes.device)
