"""The GPUs of this machine, in groups that each serve one run at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import torch


class Devices:
    """Groups of GPUs, as values of CUDA_VISIBLE_DEVICES. Runs beyond their number share the least used group."""

    def __init__(self, gpus: Sequence[str], per_run: int) -> None:
        if 0 < len(gpus) < per_run:
            raise ValueError(f"--gpus-per-run {per_run}: this machine has only {len(gpus)}")
        self.groups = [",".join(gpus[i : i + per_run]) for i in range(0, len(gpus) - per_run + 1, per_run)]
        self._used = Counter(dict.fromkeys(self.groups, 0))

    def take(self) -> str | None:
        """The group for the next run; None without GPUs."""
        if not self.groups:
            return None
        group = min(self.groups, key=lambda each: self._used[each])
        self._used[group] += 1
        return group

    def give_back(self, group: str | None) -> None:
        """A run has ended."""
        if group is not None:
            self._used[group] -= 1


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    count = torch.cuda.device_count()
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return named[:count] if named else [str(number) for number in range(count)]
