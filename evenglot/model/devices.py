"""The device that a model runs on, and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

Device = Literal["auto", "cpu", "cuda", "mps"]

AVAILABLE: dict[str, Callable[[], bool]] = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
NAMES = {"cuda": "CUDA device", "mps": "Apple GPU (MPS)"}


def usable_device(device: Device, setting: str = "device") -> torch.device:
    """The torch device; `auto` is a CUDA device if there is one. ValueError if it is not available."""
    if device == "auto":
        return torch.device("cuda" if AVAILABLE["cuda"]() else "cpu")
    if device in AVAILABLE and not AVAILABLE[device]():
        raise ValueError(f"{setting}: no {NAMES[device]} available; use 'cpu' or 'auto'")
    return torch.device(device)


def sum_type(device: torch.device) -> torch.dtype:
    """The type in which many numbers are summed: float64, which Apple's GPUs do not have."""
    return torch.float32 if device.type == "mps" else torch.float64
