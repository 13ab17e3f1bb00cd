"""`make torture`: every attack, with counts; the figures go to docs/reliability.md, between its two marks.

python -m torture [--cases 200] [--states 20000] [--seed 1] [--only states files]
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import torch

from torture.files import TARGETS, attack
from torture.mutations import at_random
from torture.scene import make_scene
from torture.states import CASES, balancer_of, fault, work

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
Row = tuple[str, Counter[str], int]  # what, how often each outcome, faults


def states(cases: int, seed: int) -> Row:
    """Changed states of all strategies."""
    saved = {}
    for case in CASES:
        balancer = balancer_of(case)
        work(balancer)
        saved[case] = balancer.state_dict()
    outcomes, faults, names = Counter[str](), 0, list(CASES)
    for number in range(cases):
        case = names[number % len(names)]
        mutations = at_random(random.Random(f"{seed} states {number}"))
        found, outcome = fault(lambda case=case: balancer_of(case), saved[case], mutations)
        outcomes[outcome] += 1
        if found:
            faults += 1
            print(f"{case} {number}: {found}", flush=True)
    return "state of a balancer", outcomes, faults


def files(cases: int, seed: int) -> list[Row]:
    """Changed files of every kind."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        scene = make_scene(Path(folder) / "scene")
        for name in TARGETS:
            outcomes, faults = attack(scene, name, cases, seed)
            print("\n".join([f"{name}: {dict(outcomes)}", *faults]), flush=True)
            rows.append((name, outcomes, len(faults)))
    return rows


def table(rows: list[Row], seed: int) -> str:
    """The figures in Markdown."""
    day = datetime.now(UTC).date().isoformat()
    lines = [
        f"Seed {seed}, {day}.",
        "",
        "| changed | tried | refused | read all the same | failed |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, outcomes, faults in rows:
        lines.append(
            f"| {name} | {outcomes.total():,} | {outcomes['refused']:,} | {outcomes['accepted']:,} | {faults} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Attack, and write the figures."""
    options = argparse.ArgumentParser(prog="torture")
    options.add_argument("--cases", type=int, default=200, help="changed files of each kind")
    options.add_argument("--states", type=int, default=20_000, help="changed states of balancers")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="*", choices=["states", "files"], default=["states", "files"])
    given = options.parse_args()
    torch.set_num_threads(1)
    rows = [states(given.states, given.seed)] if "states" in given.only else []
    rows += files(given.cases, given.seed) if "files" in given.only else []
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{table(rows, given.seed)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
