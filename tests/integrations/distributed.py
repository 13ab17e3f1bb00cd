"""Run a function in several processes of one gloo group, as `torchrun` would start them, without a port."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing


def in_processes(world: int, folder: Path, function: Callable[[], Any]) -> Any:
    """What `function` returns in the first process."""
    folder.mkdir(parents=True, exist_ok=True)
    multiprocessing.spawn(_process, (world, str(folder), function), nprocs=world)
    return torch.load(folder / "result.pt", weights_only=False)


def _process(rank: int, world: int, folder: str, function: Callable[[], Any]) -> None:
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # for workers of loaders, as in a program of its own
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=world)
    result = function()
    if rank == 0:
        torch.save(result, Path(folder) / "result.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
