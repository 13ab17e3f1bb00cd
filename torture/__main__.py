"""`make torture`: every attack, with counts; the figures go to docs/reliability.md, between its two marks.

python -m torture [--only states files kills crashes full damage] [--of grid prepare] [--seed 1] [--cases 200] ...
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from torture import crash_points, damage
from torture import kills as training_kills
from torture.files import TARGETS, attack
from torture.mutations import at_random
from torture.page import Rows, today, write
from torture.scene import make_scene
from torture.states import CASES, balancer_of, fault, work

OPERATIONS = 10_000  # more than a command has: all of them
ATTACKS = ["states", "files", "kills", "crashes", "full", "damage"]
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
    lines = [
        f"Seed {seed}, {today()}.",
        "",
        "| changed | tried | refused | read all the same | failed |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, outcomes, faults in rows:
        lines.append(
            f"| {name} | {outcomes.total():,} | {outcomes['refused']:,} | {outcomes['accepted']:,} | {faults} |"
        )
    return "\n".join(lines)


def kills(each: int, seed: int) -> str:
    """Killed runs, `each` with every strategy and number of processes."""
    lines, total, faults = [], Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        scene = training_kills.Scene(Path(folder))
        for name in training_kills.STRATEGIES:
            counts = []
            for processes in (1, 2, 3):
                outcomes, wrong = training_kills.again_and_again(scene, name, processes, each, seed)
                counts.append(outcomes.total())
                total, faults = total + outcomes, faults + wrong
            changed = Counter[str]()
            for order in training_kills.ORDERS if name in training_kills.CHANGING else ():
                outcomes, wrong = training_kills.with_others(scene, name, order, seed)
                changed, faults = changed + outcomes, faults + wrong
            total += changed
            lines.append(f"| {name} | {' | '.join(map(str, counts))} | {changed.total() or '-'} |")
            print(lines[-1], *faults, sep="\n", flush=True)
    moments = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
    head = ["| killed | 1 process | 2 | 3 | changed in between |", "|---|--:|--:|--:|--:|"]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    made = f"Seed {seed}, {today()}, commit {commit.strip() or 'unknown'}:"
    return "\n".join([made, "", *head, *lines, "", f"{total.total()} kills ({moments}): {len(faults)} differences."])


def crashes(operations: int, torn: int, seed: int, of: Sequence[str] | None) -> None:
    """Commands (of these names) killed before operations on files and within writes; rows are written as they come."""
    rows = Rows(
        "crashes",
        "| command | operations | killed before one | within a write | killed again | started again | differences |",
        list(crash_points.WORKS),
    )
    with tempfile.TemporaryDirectory() as folder:
        scene = crash_points.Scene(Path(folder))
        for name in rows.chosen(of):
            forks = crash_points.WORKS[name].forks
            seen, faults = crash_points.crash(scene, name, seed, operations, 0 if forks else torn)
            counts = ("operations", "killed before", "killed within", "killed twice", "started again")
            rows.add(name, [*(seen[each] for each in counts), len(faults)])
            print(*faults, sep="\n", end="\n" if faults else "", flush=True)


def full(cases: int, seed: int, of: Sequence[str] | None) -> None:
    """Commands on full and read-only disks; rows are written as they come."""
    rows = Rows("full", "| command | tried | refused by name | had room enough | failed |", list(crash_points.WORKS))
    with tempfile.TemporaryDirectory() as folder:
        scene = crash_points.Scene(Path(folder))
        for name in rows.chosen(of):
            seen, faults = crash_points.starve(scene, name, seed, cases)
            rows.add(name, (cases + 1, seen["named"], seen["ended"], len(faults)))
            print(*faults, sep="\n", end="\n" if faults else "", flush=True)


def damages(share: float, seed: int, of: Sequence[str] | None) -> None:
    """Damaged files of what the commands have written; rows are written as they come."""
    trees = {name: tree for tree, name in damage.NAMES.items()}
    rows = Rows("damage", "| files of | tried | named | harmless | taken as written | failed |", list(trees))
    with tempfile.TemporaryDirectory() as folder:
        scene = crash_points.Scene(Path(folder))
        damage.furnish(scene)
        for name in rows.chosen(of):
            seen, faults = damage.attack(scene, trees[name], seed, share)
            rows.add(name, [seen.total(), *(seen[each] for each in ("named", "harmless", "shown", "failed"))])
            print(*faults, sep="\n", end="\n" if faults else "", flush=True)


def main() -> None:
    """Attack, and write the figures."""
    options = argparse.ArgumentParser(prog="torture")
    options.add_argument("--cases", type=int, default=200, help="changed files of each kind")
    options.add_argument("--states", type=int, default=20_000, help="changed states of balancers")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="*", choices=ATTACKS, default=ATTACKS)
    options.add_argument("--kills", type=int, default=5, help="kills with each strategy and number of processes")
    options.add_argument("--operations", type=int, default=OPERATIONS, help="crash points of each command, at most")
    options.add_argument("--torn", type=int, default=4, help="kills within a write, and full disks, of each command")
    options.add_argument("--share", type=float, default=1.0, help="share of damaged files that are tried")
    options.add_argument(
        "--of", nargs="*", metavar="ROW", help="crashes, full and damage: only these rows of the tables"
    )
    given = options.parse_args()
    if unknown := sorted({*(given.of or ())} - {*crash_points.WORKS, *damage.NAMES.values()}):
        options.error(f"--of: no row {unknown[0]!r}")
    torch.set_num_threads(1)
    rows = [states(given.states, given.seed)] if "states" in given.only else []
    rows += files(given.cases, given.seed) if "files" in given.only else []
    if rows:
        write("figures", table(rows, given.seed))
    if "kills" in given.only:
        write("kills", kills(given.kills, given.seed))
    if "crashes" in given.only:
        crashes(given.operations, given.torn, given.seed, given.of)
    if "full" in given.only:
        full(given.torn, given.seed, given.of)
    if "damage" in given.only:
        damages(given.share, given.seed, given.of)


if __name__ == "__main__":
    main()
