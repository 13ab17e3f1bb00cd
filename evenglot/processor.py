"""What the CPU of this machine can do."""

from __future__ import annotations

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


def _first(key: str) -> str:
    if not ABOUT.exists():
        return ""
    lines = (line.partition(":") for line in ABOUT.read_text(encoding="utf-8", errors="replace").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "")
