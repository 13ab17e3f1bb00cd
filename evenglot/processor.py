"""What the CPU of this machine can do, and how much of it is ours."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

ABOUT = Path("/proc/cpuinfo")  # Linux only; elsewhere nothing is known


@cache
def vendor() -> str:
    """The vendor, such as 'AuthenticAMD', or '' if unknown."""
    return _first("vendor_id")


@cache
def features() -> frozenset[str]:
    """Instruction set extensions, such as 'avx512_bf16', as Linux calls them; empty if unknown."""
    return frozenset(_first("flags").split())


def cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(processes: int = 1) -> int:
    """Threads for each of so many processes: their share of the cores, or fewer if OMP_NUM_THREADS says so.

    `torchrun` sets it to 1 for several processes unless it is set, so that value says nothing there.
    """
    share = max(1, cores() // processes)
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    is_torchrun = asked == "1" and os.environ.get("LOCAL_WORLD_SIZE", "1") != "1"
    return min(int(asked), share) if asked.isdecimal() and int(asked) and not is_torchrun else share


def _first(key: str) -> str:
    if not ABOUT.exists():
        return ""
    lines = (line.partition(":") for line in ABOUT.read_text(encoding="utf-8", errors="replace").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "")
