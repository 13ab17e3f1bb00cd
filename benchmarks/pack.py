"""Time of drawing, packing and collating: `python -m benchmarks.pack` writes benchmarks/results/pack.md."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from evenglot.batches.draw import draw
from evenglot.batches.load import load
from evenglot.sequences import ParallelSequences, Sequences

RESULT = Path(__file__).parent / "results" / "pack.md"
GOALS = {1_000_000: 0.5, 10_000_000: 6.0}  # number of pairs -> seconds for drawing and packing them
BUDGET, REPEATS = 4096, 7


def main() -> None:
    lines = [
        "# Drawing, packing and collating",
        "",
        f"Made by `python -m benchmarks.pack` on {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, NumPy {np.__version__}, torch {torch.__version__}; medians of {REPEATS}.",
        f"Eight corpora, each twice as large as the one before; log-normal lengths; q at temperature 2; {BUDGET:,}",
        "tokens a batch. `load` finds the lengths of the drawn pairs and packs them. Tokens: both sides, no padding.",
        "",
        "| pairs | draw | load | together | goal | padding | collate, tokens/s |",
        "|---:|---:|---:|---:|---:|---:|---:|",
        *(row(pairs, goal) for pairs, goal in GOALS.items()),
    ]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def row(pairs: int, goal: float) -> str:
    corpora = synthetic(pairs)
    sizes = {name: len(corpus) for name, corpus in corpora.items()}
    q = {name: size**0.5 for name, size in sizes.items()}
    interval, drawing = timed(lambda: draw(sizes, q, seed=1, interval=3))
    loader, packing = timed(lambda: load(corpora, interval, budget=BUDGET, pad=1))
    some = range(20)
    tokens = int(loader.plan.tokens[: len(some) * loader.plan.micro_batches].sum())
    _, collating = timed(lambda: [loader.update(k) for k in some])
    return (
        f"| {pairs:,} | {drawing:.3f} s | {packing:.3f} s | {drawing + packing:.3f} s | {goal} s "
        f"| {loader.plan.padding():.2%} | {tokens / collating:,.0f} |"
    )


def synthetic(pairs: int) -> dict[str, ParallelSequences]:
    random = np.random.default_rng(1)
    shares = 2.0 ** np.arange(8)
    corpora = {}
    for number, size in enumerate((pairs * shares / shares.sum()).astype(int)):
        source = random.lognormal(3, 0.6, size)
        target = source * random.lognormal(0, 0.25, size)
        corpora[f"l{number}-en"] = ParallelSequences(sequences(source), sequences(target))
    return corpora


def sequences(lengths: np.ndarray) -> Sequences:
    offsets = np.concatenate([[0], np.cumsum(np.clip(lengths, 2, 400).astype(np.int64))])
    return Sequences(np.zeros(offsets[-1], dtype=np.uint16), offsets)  # takes no memory until it is read, as a file


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of `work` and the median of its time in seconds."""
    seconds = []
    for _ in range(REPEATS):
        started = perf_counter()
        result = work()
        seconds.append(perf_counter() - started)
    return result, statistics.median(seconds)


if __name__ == "__main__":
    main()
