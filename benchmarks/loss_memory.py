"""Memory and time of the loss: `python -m benchmarks.loss_memory` writes benchmarks/results/loss_memory.md."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from time import process_time

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from evenglot.model.loss import chunk_size, smoothed_cross_entropy

RESULT = Path(__file__).parent / "results" / "loss_memory.md"
CASES = [(32_000, 512, 4096), (8_000, 128, 4096)]  # vocabulary size, dimension, number of target subwords
REPEATS, SMOOTHING, MEGABYTE = 7, 0.1, 1e6
Problem = tuple[Tensor, Tensor, Tensor, Tensor]


def main() -> None:
    torch.set_num_threads(1)
    lines = [
        "# Memory and time of the loss",
        "",
        f"Made by `python -m benchmarks.loss_memory` on {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, torch {torch.__version__}, float32.",
        "Forward and backward, from hidden states to the gradients of hidden states and embedding. Peak: what torch",
        "has allocated at most at a time, beyond what it was given; both gradients are in it. Time: the ways are run",
        f"in turn, {REPEATS} times, one thread; medians of CPU seconds, and of ratios to naive in the same turn.",
        "Naive: `F.cross_entropy(hidden @ embedding.T, target, label_smoothing=0.1)`, weighted.",
        "",
        "| vocabulary | dim | pieces | way | peak, MB | of naive | seconds | of naive |",
        "|---:|---:|---:|---|---:|---:|---:|---:|",
        *(row for case in CASES for row in rows(*case)),
    ]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def rows(vocabulary: int, dim: int, pieces: int) -> list[str]:
    torch.manual_seed(1)
    hidden = torch.randn(pieces, dim, requires_grad=True)
    embedding = (torch.randn(vocabulary, dim) * dim**-0.5).requires_grad_()
    problem = hidden, embedding, torch.randint(vocabulary, (pieces,)), torch.rand(pieces)
    ways = {"naive": partial(naive, problem)}
    default = chunk_size(vocabulary, hidden.device)
    for chunk in sorted({64, 128, 256, 512, default}):
        ways[f"chunks of {chunk} subwords" + " (default)" * (chunk == default)] = partial(chunked, problem, chunk)
    peaks = {}
    for name, way in ways.items():
        forget_gradients(problem)
        peaks[name] = peak_of(way)
    seconds = timed(ways, problem)
    return [
        f"| {vocabulary:,} | {dim} | {pieces:,} | {name} | {peaks[name] / MEGABYTE:,.0f} "
        f"| {peaks[name] / peaks['naive']:.0%} | {statistics.median(seconds[name]):.2f} "
        f"| {statistics.median(a / b for a, b in zip(seconds[name], seconds['naive'], strict=True)):.2f} |"
        for name in ways
    ]


def naive(problem: Problem) -> None:
    hidden, embedding, target, weights = problem
    losses = F.cross_entropy(hidden @ embedding.T, target, label_smoothing=SMOOTHING, reduction="none")
    (losses * weights).sum().backward()


def chunked(problem: Problem, chunk: int) -> None:
    smoothed_cross_entropy(*problem, SMOOTHING, chunk)[0].backward()


def peak_of(way: Callable[[], None]) -> int:
    """Peak memory allocated by torch in bytes, from the profiler's record of allocations and releases."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        way()
    changes = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())))


def timed(ways: Mapping[str, Callable[[], None]], problem: Problem) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, way in ways.items():
            forget_gradients(problem)
            started = process_time()
            way()
            seconds[name].append(process_time() - started)
    return seconds


def forget_gradients(problem: Problem) -> None:
    for tensor in problem[:2]:
        tensor.grad = None


if __name__ == "__main__":
    main()
