"""CPU time and peak memory with 10 million pairs and with 1,000 directions: writes results/growth.md.

`python -m benchmarks.growth`: each part is a process of its own. `prepare` is measured by benchmarks/prepare.py.
"""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

RESULT = Path(__file__).parent / "results" / "growth.md"
PAIRS, DIRECTIONS, SENTENCES, INTERVALS = 10_000_000, 1_000, 200, 100
NOTE = (
    "Of the memory for drawing and packing, 415 MB are imports and the offsets of the corpora, the rest the random\n"
    "order, the interval and the plan: 46 bytes a pair at the peak, 31 that stay. Ids are read from the store when\n"
    "they are needed.\n\n"
    "The time of the comparisons is quadratic: each direction is sampled 40 times for every direction (Holm's\n"
    "smallest level needs that many). At commit e8f9a83, without blocks of samples, the first took 250.7 s and 2614 MB."
)
NAMES = [f"x{chr(97 + i // 100)}{chr(97 + i // 10 % 10)}{chr(97 + i % 10)}-en" for i in range(DIRECTIONS)]
SIZES = dict(zip(NAMES, np.geomspace(1_000, 1_000_000, DIRECTIONS).astype(int).tolist(), strict=True))


def draw_all(folder: Path) -> None:
    """Draw and pack a pass over 10 million pairs of 8 directions."""
    from benchmarks.pack import BUDGET, synthetic
    from evenglot.batches.draw import draw
    from evenglot.batches.load import load

    corpora = synthetic(PAIRS)
    sizes = {name: len(corpus) for name, corpus in corpora.items()}
    load(corpora, draw(sizes, sizes, seed=1, interval=0, pairs=PAIRS), budget=BUDGET, pad=1)


def balance_all(folder: Path) -> None:
    """100 intervals of chi-IBR over 1,000 directions, 20 observations each."""
    from evenglot.balance import create

    balancer = create("chi-ibr", SIZES)
    balancer.serves("loss_weights")
    chance = np.random.default_rng(0)
    for _ in range(INTERVALS):
        for _ in range(20):
            losses = chance.uniform(30, 90, DIRECTIONS).tolist()
            balancer.observe(dict(zip(NAMES, losses, strict=True)), dict.fromkeys(NAMES, 30))
        balancer.update()


def log_all(folder: Path) -> None:
    """Write and read the log of 100 intervals of 1,000 directions (400 events)."""
    from evenglot.runs.log import read_log

    write_run(folder, 1)
    assert len(list(read_log(folder / "log.jsonl"))) == 4 * INTERVALS + 2


def report_all(folder: Path) -> None:
    """The report of such a run."""
    from evenglot.reporting.page import write_report
    from evenglot.runs.run import Run

    write_run(folder / "run", 1)
    write_report([Run(folder / "run")], folder / "report.html")


def compare_all(folder: Path, test_sets: int = DIRECTIONS) -> None:
    """Compare two such runs, scored on 200 sentences of each direction."""
    from evenglot.comparison.compare import compare
    from evenglot.comparison.scored_run import read_scored_run
    from evenglot.runs.run import Run

    for seed in (1, 2):
        write_run(folder / str(seed), seed)
        write_scores(folder / str(seed), seed, test_sets)
    runs = [read_scored_run(Run(folder / str(seed)), f"run-{seed}", "test") for seed in (1, 2)]
    compare(runs, "run-1", "test").as_json()


def compare_shared(folder: Path) -> None:
    """The same with the references of 32 languages, as in a multi-parallel test set."""
    compare_all(folder, test_sets=32)


def write_run(folder: Path, seed: int) -> None:
    """The log of a run."""
    from evenglot.runs.events import (
        BalanceEvent,
        ConfigEvent,
        DirectionFacts,
        DoneEvent,
        IntervalEvent,
        StepEvent,
        ValidationEvent,
    )
    from evenglot.runs.log import Log

    chance, total = np.random.default_rng(seed), sum(SIZES.values())
    shares = {name: size / total for name, size in SIZES.items()}
    facts = {name: DirectionFacts(pairs=size, p=shares[name], q=shares[name]) for name, size in SIZES.items()}
    log = Log(folder / "log.jsonl")
    log.write(ConfigEvent(step=0, directions=facts, strategy="chi-ibr", config={"seed": seed}, updates=INTERVALS))
    for number in range(INTERVALS):
        losses = dict(zip(NAMES, chance.uniform(1, 3, DIRECTIONS).tolist(), strict=True))
        log.write(IntervalEvent(step=number, interval=number, mixture=shares, target=shares, pairs=SIZES, updates=1))
        log.write(StepEvent(step=number + 1, loss=2.0, losses=losses, interval=number, tokens=number * 1000))
        log.write(BalanceEvent(step=number + 1, interval=number, mixture=shares, target=shares, losses=losses))
        log.write(ValidationEvent(step=number + 1, loss=losses, loss_per_character=losses, pooled=2.0, score=2.0))
    log.write(DoneEvent(step=INTERVALS, reason="updates", best_step=INTERVALS))
    log.close()


def write_scores(folder: Path, seed: int, test_sets: int) -> None:
    """Scores of a run: BLEU and chrF from counts."""
    from evenglot.files import write_json
    from evenglot.scoring.metrics import METRICS
    from evenglot.scoring.sentence_statistics import SentenceStatistics

    chance = np.random.default_rng(seed)
    metrics = {name: METRICS[name] for name in ("bleu", "chrf")}
    counts = {
        name: {metric: chance.integers(1, 40, (SENTENCES, about.columns)) for metric, about in metrics.items()}
        for name in NAMES
    }
    references = {name: f"{place % test_sets:016x}" for place, name in enumerate(NAMES)}
    SentenceStatistics(counts, references).save(folder / "statistics.npz")
    rows = {name: {metric: metrics[metric].total(counts[name][metric]) for metric in metrics} for name in NAMES}
    macro = {metric: float(np.mean([row[metric] for row in rows.values()])) for metric in metrics}
    worst = {"direction": NAMES[0], **rows[NAMES[0]]}
    content = {"split": "test", "signature": dict.fromkeys(metrics, ""), "directions": rows, "macro": macro}
    write_json(folder / "scores.json", {**content, "worst": worst})


def check_all(folder: Path) -> str:
    """`evenglot check` of 10 million pairs of 8 directions (1.3 GB of text), all processes together."""
    from benchmarks.prepare import cost, write_corpus

    write_corpus(folder, PAIRS, 8)
    _, cpu, memory = cost(["check", str(folder / "conf.yaml")], folder, RESULT.parents[2])
    return row(cpu, memory)


def row(cpu: float, memory: float) -> str:
    """Seconds and MB as cells."""
    return f"{cpu:.1f} s | {memory:.0f} MB"


PARTS: dict[str, Callable[[Path], str | None]] = {
    "check": check_all,
    "draw": draw_all,
    "balance": balance_all,
    "log": log_all,
    "report": report_all,
    "compare": compare_all,
    "compare-shared": compare_shared,
}


def measured(part: str) -> str:
    """A row of the table, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", part]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    numbers = done.stdout.splitlines()[-1] if done.returncode == 0 else "failed | |"
    about = " ".join((PARTS[part].__doc__ or "").split())
    return f"| {about} | {numbers} |"


def main() -> None:
    """Measure all parts, or, as a process of its own, one."""
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            found = PARTS[sys.argv[1]](Path(folder))
        print(found or row(process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
        return
    lines = [
        "# Growth",
        "",
        f"Made by `python -m benchmarks.growth` ({platform.machine()}, Python {platform.python_version()}).",
        "Each row is a process of its own; its time and memory include imports and, but for `check`, making the input.",
        "`prepare` of as many pairs: [prepare.md](prepare.md).",
        "",
        "| work | CPU | peak memory |",
        "|---|---:|---:|",
    ]
    for part in PARTS:
        lines.append(measured(part))
        print(lines[-1], flush=True)
    lines += ["", NOTE]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
