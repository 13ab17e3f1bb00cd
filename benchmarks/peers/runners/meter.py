"""Counts CPU time, tokens and memory inside a training process; runs in the environment of any toolkit.

A runner replaces the method that receives a batch by `meter.around(method, count)`. Each call is stamped when it
begins, so from one stamp to the next is a whole update: the batch, the optimizer step, and whatever the toolkit does
until it has the next batch (loading, logging). The stamp of the first call is the cost of starting up.
"""

from __future__ import annotations

import functools
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

KILOBYTE = 1024
TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """Writes a JSON file when `updates` whole updates have been seen."""

    def __init__(self, result: str, updates: int) -> None:
        self.result, self.updates = Path(result), updates
        self.stamps: list[dict[str, float]] = []

    def around(self, method: Callable[..., Any], count: Callable[..., dict[str, int]]) -> Callable[..., Any]:
        """The same method; `count` gets the same arguments and returns the tokens of the batch (see `tokens`)."""

        @functools.wraps(method)
        def stamped(*arguments: Any, **options: Any) -> Any:
            if len(self.stamps) <= self.updates:
                self.stamps.append({"cpu": cpu_seconds(), **count(*arguments, **options)})
                if len(self.stamps) == self.updates + 1:
                    self.write()
            return method(*arguments, **options)

        return stamped

    def write(self) -> None:
        self.result.write_text(json.dumps({"stamps": self.stamps, "memory": memory_bytes()}), encoding="utf-8")


def tokens(source: int, target: int, padded_source: int, padded_target: int) -> dict[str, int]:
    """Tokens of a batch, including </s>, without and with padding; the target without the decoder's start symbol."""
    return {
        "source": int(source),
        "target": int(target),
        "padded_source": int(padded_source),
        "padded_target": int(padded_target),
    }


def cpu_seconds() -> float:
    """CPU time of this process with all its threads, and of its worker processes, living or done."""
    times = os.times()
    done = times.children_user + times.children_system
    return process_time() + done + sum(_cpu_of(child) for child in _children())


def memory_bytes() -> int:
    """Peak memory of this process, and what its worker processes have of their own at this moment."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE
    return peak + sum(_private_bytes(child) for child in _children())


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def _cpu_of(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def _private_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * KILOBYTE for line in lines if line.startswith("Private_"))
