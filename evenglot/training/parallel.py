"""Device, precision, threads and processes. The collective operations are no-ops with a single process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenglot.config import TrainSettings
from evenglot.model.devices import usable_device
from evenglot.processor import features
from evenglot.processor import threads as usable_threads
from evenglot.training.stalls import stalls_named

CPU = torch.device("cpu")
Precision = Literal["float32", "bfloat16", "float16"]
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Processes:
    """Rank of this process among those started by `torchrun`, with its device, precision and threads."""

    rank: int = 0
    world: int = 1
    device: torch.device = CPU
    precision: Precision = "float32"
    threads: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, the only process that prints and writes files."""
        return self.rank == 0

    def autocast(self) -> AbstractContextManager[None]:
        """Autocast context for the forward pass; does nothing in float32."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, PRECISIONS[self.precision])

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all processes."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def gather(self, values: Tensor) -> list[Tensor]:
        """The values (n,) of every process in the order of ranks; n may differ between processes."""
        if self.world == 1:
            return [values]
        sizes = torch.zeros(self.world, dtype=torch.int64)
        sizes[self.rank] = len(values)
        longest = int(self.sum(sizes).max())
        padded = nn.functional.pad(values, (0, longest - len(values)))
        received = [torch.empty_like(padded) for _ in range(self.world)]
        dist.all_gather(received, padded)
        return [part[:size] for part, size in zip(received, sizes.tolist(), strict=True)]

    def sum_gradients(self, model: nn.Module) -> None:
        """Sum the gradients over all processes, as one flat vector.

        Its layout is fixed, so a resumed run adds in the same order and gets bit-identical sums. (DDP rebuilds its
        buckets after the first update.)
        """
        if self.world == 1:
            return
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        totals = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, total in zip(gradients, totals, strict=True):
            gradient.copy_(total.view_as(gradient))

    def peak_memory(self) -> int | None:
        """Bytes of GPU memory that tensors of this process have used at most; None on a CPU."""
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def processes(settings: TrainSettings) -> Iterator[Processes]:
    """Join the process group, if `torchrun` started several processes, and choose device, precision and threads."""
    world, rank, local_rank = (int(os.environ.get(name, default)) for name, default in ENVIRONMENT.items())
    device = usable_device(settings.device, "train.device")
    on_gpu = device.type == "cuda"
    if device.type == "mps" and world > 1:
        raise ValueError("train.device: mps works in one process only; start it without torchrun, or use 'cpu'")
    if on_gpu:
        device = torch.device("cuda", local_rank)
        if local_rank >= torch.cuda.device_count():
            raise ValueError(
                f"at least {local_rank + 1} processes for {torch.cuda.device_count()} GPUs; start one process per GPU"
            )
        torch.cuda.set_device(device)
    threads = settings.threads or usable_threads(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    torch.set_num_threads(threads)
    if world > 1:
        timeout = timedelta(minutes=settings.timeout)
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=timeout)
    try:
        with stalls_named(rank, world, settings.timeout):
            yield Processes(rank, world, device, _precision(settings, device), threads)
    finally:
        if world > 1:
            dist.destroy_process_group()


ENVIRONMENT = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}  # as set by torchrun


def _precision(settings: TrainSettings, device: torch.device) -> Precision:
    if device.type == "mps":
        return "float32"
    if device.type == "cuda":
        best: Precision = "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
        return best if settings.precision == "auto" else settings.precision
    if settings.precision == "float16":
        raise ValueError("train.precision: float16 is not supported on a CPU; use 'auto', 'float32' or 'bfloat16'")
    if settings.precision != "bfloat16":
        return "float32"
    works = torch.tensor([int(has_bfloat16())])
    if dist.is_initialized():
        dist.all_reduce(works, dist.ReduceOp.MIN)
    return "bfloat16" if works else "float32"


@cache
def has_bfloat16() -> bool:
    """Whether the CPU has bfloat16 instructions that work.

    Tried in a child process: in some virtual machines that report them, they kill the process.
    """
    if features().isdisjoint({"avx512_bf16", "amx_bf16"}):
        return False
    product = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); assert (x @ x).eq(64).all()"
    return subprocess.run([sys.executable, "-c", product], capture_output=True, check=False).returncode == 0
