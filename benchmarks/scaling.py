"""How cost grows with data and processes: `python -m benchmarks.scaling` writes results/scaling.md.

CPU time, not wall time, so that other load matters little. Each figure is the difference between a longer and a shorter
job, without what every job costs (start-up, learning the vocabulary).
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.prepare import write_corpus

RESULT = Path(__file__).parent / "results" / "scaling.md"
PAIRS = (500_000, 2_000_000)
DRAWN = (1_000_000, 10_000_000)
UPDATES = (4, 20)
CASES = (("flat", 1), ("flat", 2), ("ddp", 2), ("fsdp", 2))
SETTINGS = {
    "model.size": "tiny",
    "batches.tokens_per_batch": 1024,
    "batches.tokens_per_update": 4096,
    "batches.interval_pairs": 20_000,
    "balance": "{strategy: proportional}",
    "train.device": "cpu",
    "train.threads": 1,
}
PREPARE = """
import resource, sys
from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
prepare(load_config(sys.argv[1], ["store.threads=2"]), Bars())
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    used = resource.getrusage(who)
    print(used.ru_utime + used.ru_stime)
"""
DRAW = """
import resource, sys
import numpy as np
from evenglot.batches.draw import draw
from evenglot.batches.load import load
from evenglot.sequences import ParallelSequences, Sequences
pairs = int(sys.argv[1])
lengths = np.random.default_rng(1).integers(5, 60, pairs)
side = Sequences(np.zeros(0, dtype=np.uint16), np.concatenate([[0], np.cumsum(lengths)]))
corpora = {"aa-en": ParallelSequences(side, side)}
def used(): return resource.getrusage(resource.RUSAGE_SELF)
before = used()
interval = draw({"aa-en": pairs}, {"aa-en": 1.0}, seed=1, interval=0, drawn_before={"aa-en": 0})
load(corpora, interval, budget=4096, pad=2, micro_batches=16)
after = used()
print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
print((after.ru_maxrss - before.ru_maxrss) * 1024)
"""


def numbers(program: str, *arguments: object) -> list[float]:
    """What a program prints, in a process of its own."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def growth(less: Sequence[float], more: Sequence[float], by: float) -> list[float]:
    return [(b - a) / by for a, b in zip(less, more, strict=True)]


def prepared(folder: Path) -> list[str]:
    """CPU seconds of `prepare` per million pairs: this process, which reads and writes, and its workers."""
    found = []
    for pairs in PAIRS:
        root = folder / str(pairs)
        root.mkdir()
        write_corpus(root, pairs, 8)
        found.append(numbers(PREPARE, root / "conf.yaml"))
    own, workers = growth(found[0], found[1], (PAIRS[1] - PAIRS[0]) / 1e6)
    return [
        "| reads and writes (one process) | workers | at most so many workers are kept busy |",
        "|---:|---:|---:|",
        f"| {own:.1f} s | {workers:.1f} s | {workers / own:.0f} |",
    ]


def drawn() -> list[str]:
    """CPU seconds and memory of drawing and packing an interval, per million pairs."""
    found = [numbers(DRAW, pairs) for pairs in DRAWN]
    seconds, memory = growth(found[0], found[1], (DRAWN[1] - DRAWN[0]) / 1e6)
    return ["| CPU time | peak memory |", "|---:|---:|", f"| {seconds:.2f} s | {memory / 1e6:.0f} MB |"]


def trained(conf: Path, out: Path) -> list[str]:
    """CPU seconds of an update in every mode, over all processes."""
    rows = ["| processes | mode | CPU time of an update, all processes | over one process |", "|---:|---|---:|---:|"]
    alone = 0.0
    for mode, count in CASES:
        seconds = _update(conf, out / f"{mode}-{count}", mode, count)
        alone = alone or seconds
        rows.append(f"| {count} | {mode} | {seconds:.2f} s | {100 * (seconds / alone - 1):+.0f} % |")
    return rows


def _update(conf: Path, out: Path, mode: str, count: int) -> float:
    used = [_train(conf, out / str(updates), mode, count, updates) for updates in UPDATES]
    return (used[1] - used[0]) / (UPDATES[1] - UPDATES[0])


def _train(conf: Path, run: Path, mode: str, count: int, updates: int) -> float:
    settings = {**SETTINGS, "train.parallel": mode, "train.updates": updates}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    command = [sys.executable, *torchrun, "-m", "evenglot", "train", str(conf), "--out", str(run), *options]
    before = os.times()
    subprocess.run(command, capture_output=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        of_prepare = prepared(folder)
        of_draw = drawn()
        of_train = trained(folder / str(PAIRS[0]) / "conf.yaml", folder)
    about = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    lines = [
        "# How cost grows",
        "",
        f"Made by `python -m benchmarks.scaling` on {os.cpu_count()} cores ({about}).",
        "CPU time; other programs used the same cores.",
        "",
        f"`prepare`, per million pairs of generated text (from {PAIRS[0]:,} to {PAIRS[1]:,}), without the vocabulary:",
        "",
        *of_prepare,
        "",
        f"Drawing and packing an interval, per million pairs (from {DRAWN[0]:,} to {DRAWN[1]:,}):",
        "",
        *of_draw,
        "",
        f"An update of `tiny` (40,000 subwords, {SETTINGS['batches.tokens_per_update']:,} tokens in batches of "
        f"{SETTINGS['batches.tokens_per_batch']:,}):",
        "",
        *of_train,
    ]
    RESULT.write_text("\n".join(lines) + "\n")
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
