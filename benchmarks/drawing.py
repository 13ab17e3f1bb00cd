"""Time of drawing and packing a short interval: `python -m benchmarks.drawing` writes benchmarks/results/drawing.md."""

from __future__ import annotations

import platform
import statistics
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.pack import BUDGET, synthetic
from evenglot.batches import draw as drawing
from evenglot.batches.load import load

RESULT = Path(__file__).parent / "results" / "drawing.md"
CORPUS_PAIRS = (100_000, 1_000_000, 10_000_000)
INTERVAL_PAIRS = (1_000, 20_000)
REPEATS = 9


def main() -> None:
    lines = [
        "# Drawing a short interval from a large corpus",
        "",
        f"Made by `python -m benchmarks.drawing` ({platform.machine()}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}): CPU time of `draw` and `load`, medians of {REPEATS}.",
        "Eight corpora, each twice as large as the one before. The first interval of a run makes the random order of",
        "each corpus, the following ones remember it. `as before`: nothing is remembered.",
        "",
        "| pairs in all | pairs an interval | as before | first interval | following ones | `load` |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for pairs in CORPUS_PAIRS:
        corpora = synthetic(pairs)
        lines += [row(corpora, pairs, count) for count in INTERVAL_PAIRS]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def row(corpora: dict, pairs: int, count: int) -> str:
    forgotten, first, following, loading = [], [], [], []
    for _ in range(REPEATS):
        drawing._orders = drawing.RecentOrders(0)
        forgotten.append(seconds(corpora, count)[0])
        drawing._orders = drawing.RecentOrders(drawing.ORDER_BYTES)
        first.append(seconds(corpora, count)[0])
        draw_seconds, load_seconds = seconds(corpora, count)
        following.append(draw_seconds)
        loading.append(load_seconds)
    medians = (f"{1000 * statistics.median(each):.1f} ms" for each in (forgotten, first, following, loading))
    return f"| {pairs:,} | {count:,} | {' | '.join(medians)} |"


def seconds(corpora: dict, count: int) -> tuple[float, float]:
    sizes = {name: len(corpus) for name, corpus in corpora.items()}
    started = process_time()
    interval = drawing.draw(sizes, sizes, seed=1, interval=3, pairs=count)
    drawn = process_time()
    load(corpora, interval, budget=BUDGET, pad=1)
    return drawn - started, process_time() - drawn


if __name__ == "__main__":
    main()
