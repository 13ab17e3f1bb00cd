"""Effect of OMP_WAIT_POLICY on training time: `python -m benchmarks.threads` writes results/threads.md.

Trains for a few updates in separate processes, with the default policy and with PASSIVE (waiting threads sleep instead
of spinning), alone and with another busy process on each core.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "threads.md"
REPEATS, UPDATES = 2, 5
POLICIES = {"default": None, "passive": "PASSIVE"}
WORK = f"""
import time, torch
from evenglot.model.loss import smoothed_cross_entropy
from evenglot.model.shape import Shape
from evenglot.model.sizes import SIZES
from evenglot.model.transformer import Transformer
torch.manual_seed(1)
model = Transformer(Shape(source_pieces=6000, target_pieces=4000, **SIZES["tiny"]))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
ids = torch.randint(3, 4000, (96, 20)); lengths = torch.full((96,), 20)
def update():
    hidden = model(ids, lengths, ids, lengths)
    weights = torch.full((ids.numel(),), 1 / ids.numel())
    smoothed_cross_entropy(hidden, model.output_embedding, ids.reshape(-1), weights, 0.1)[0].backward()
    optimizer.step(); optimizer.zero_grad()
update(); update()
started = time.perf_counter()
for _ in range({UPDATES}): update()
print((time.perf_counter() - started) / {UPDATES})
"""
BUSY = "while True: pass"


def main() -> None:
    cores = os.cpu_count() or 1
    rows = []
    for busy in (0, cores):
        seconds: dict[tuple[str, int], list[float]] = {}
        for _ in range(REPEATS):
            for policy, value in POLICIES.items():
                seconds.setdefault((policy, cores), []).append(measure(value, cores, busy))
        for (policy, threads), values in seconds.items():
            listed = ", ".join(f"{1e3 * value:.0f}" for value in sorted(values))
            rows.append(f"| {busy} | {threads} | {policy} | {1e3 * statistics.median(values):.0f} | {listed} |")
    lines = [
        "# Waiting threads",
        "",
        f"Made by `python -m benchmarks.threads` on {cores} cores ({platform.machine()}). An update of 1,920 target "
        "tokens of a tiny model (4,000 target pieces).",
        "",
        "| busy processes beside it | threads | OMP_WAIT_POLICY | ms an update, median | all |",
        "|---:|---:|---|---:|---|",
        *rows,
    ]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def measure(policy: str | None, threads: int, busy: int) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    environment.pop("OMP_WAIT_POLICY", None)
    if policy is not None:
        environment["OMP_WAIT_POLICY"] = policy
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
    try:
        done = subprocess.run([sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=True)
    finally:
        for other in others:
            other.kill()
    return float(done.stdout)


if __name__ == "__main__":
    main()
