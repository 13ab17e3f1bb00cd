"""`train.parallel`: how the processes of a run share an update. All modes compute the same one, but for rounding.

flat   every process has the whole model; gradients are summed as one vector after the backward pass
ddp    the same with DistributedDataParallel, which sums gradients in buckets during the backward pass
fsdp   weights, gradients and optimizer state are divided among the processes (FSDP2), each layer gathered when it runs

Checkpoints hold whole tensors under the names of the model, so a run saved by one mode resumes in any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeGuard

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 (the usual name)

from evenglot.config import TrainSettings
from evenglot.model.interface import TranslationModel
from evenglot.model.loss import PaddedBatch, hidden_states
from evenglot.training.parallel import Processes

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

# Whether buffers are sent to all processes before each forward pass: ours never change.
BUFFERS = next(name for name in ("forward_sync_buffers", "broadcast_buffers") if name in signature(DDP).parameters)


class Flat:
    """The exact mode: one vector with a fixed layout, so that a resumed run adds in the same order."""

    name = "flat"
    rehearsals = 0  # backward passes with weight 0 before the first update: see `Ddp`

    def __init__(self, model: TranslationModel, processes: Processes) -> None:
        self.model, self.processes = model.to(processes.device), processes

    def forward(self, batch: PaddedBatch, is_last: bool) -> Tensor:
        """Hidden states of a micro-batch; `is_last`: the gradients are complete after its backward pass."""
        return hidden_states(self.model, batch)

    def sum_gradients(self) -> None:
        """Sum the gradients over all processes, unless the backward pass has done it."""
        self.processes.sum_gradients(self.model)

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Around forward passes without gradients, which all processes do the same number of times."""
        yield

    def own_model(self) -> TranslationModel:
        """A model that each process may run alone, as search does."""
        return self.model

    def rehearsed(self) -> None:
        """A rehearsal is done; its gradients are still there."""


class Ddp(Flat):
    """DistributedDataParallel.

    It lays out its buckets anew after its first backward pass, in the order in which the gradients were complete. A
    resumed run would add in the order of the first layout for one update, so both new and resumed runs have one
    backward pass with weight 0 (a rehearsal) before any other. Another one before it, still without DDP, finds the
    parameters that are never used, as some pretrained models have: DDP would wait for their gradients. Gradients are
    summed, not averaged: losses are divided by the tokens of all processes already.
    """

    name = "ddp"
    rehearsals = 2

    def __init__(self, model: TranslationModel, processes: Processes, bucket_mb: float = 25) -> None:
        super().__init__(model, processes)
        self.bucket_mb = bucket_mb
        self.wrapped: DDP | None = None

    def rehearsed(self) -> None:
        """After the first backward pass: wrap the model, without the parameters that got no gradient."""
        if self.wrapped is None:
            for parameter in self.model.parameters():
                parameter.requires_grad_(parameter.grad is not None)
            options: dict[str, Any] = {BUFFERS: False, "gradient_as_bucket_view": True}
            self.wrapped = DDP(self.model, bucket_cap_mb=self.bucket_mb, **options)
            self.wrapped.register_comm_hook(None, lambda _, bucket: _sum_bucket(bucket))

    def forward(self, batch: PaddedBatch, is_last: bool) -> Tensor:
        """Hidden states of a micro-batch; gradients are summed in the backward pass of the last one."""
        if self.wrapped is None:
            return super().forward(batch, is_last)
        with nullcontext() if is_last else self.wrapped.no_sync():
            hidden: Tensor = self.wrapped(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
            return hidden

    def sum_gradients(self) -> None:
        """The backward pass has done it, if the model is wrapped."""
        if self.wrapped is None:
            super().sum_gradients()


def _sum_bucket(bucket: Any) -> Any:
    """The future sum of a bucket (torch.distributed.GradBucket) over all processes."""
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])


def parallel_mode(model: TranslationModel, settings: TrainSettings, processes: Processes) -> Flat:
    """Move a new model to its device and prepare it for the mode of the configuration."""
    name = settings.parallel
    if name == "auto":
        name = "flat" if processes.device.type == "cpu" else "ddp"
    if processes.world == 1:
        name = "flat"
    if name == "fsdp":
        from evenglot.training.fsdp import Fsdp  # which takes a second or more to import

        return Fsdp(model, processes)
    return Ddp(model, processes) if name == "ddp" else Flat(model, processes)


# ------------------------------------------------------------------------------------------------ whole tensors


def whole(tensor: Tensor) -> Tensor:
    """A tensor with all its parts from all processes, which must all ask for it."""
    return tensor.full_tensor() if _is_divided(tensor) else tensor


def divided_like(tensor: Tensor, other: Tensor) -> Tensor:
    """A whole tensor that all processes have, on the device of another and divided like it."""
    tensor = tensor.to(other.device)
    if not _is_divided(other):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


def _is_divided(tensor: Any) -> TypeGuard[DTensor]:
    """Whether processes have parts of it; without importing what only FSDP needs."""
    return hasattr(tensor, "full_tensor")


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model in any mode."""
    return {name: whole(value) for name, value in model.state_dict().items()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load what `whole_weights` has returned, in any mode."""
    own = model.state_dict()
    model.load_state_dict({n: divided_like(value, own[n]) if n in own else value for n, value in weights.items()})
