"""Padding of prepared corpora: `python -m benchmarks.padding STORE ...` writes benchmarks/results/padding.md."""

from __future__ import annotations

import sys
from pathlib import Path

from evenglot.batches.draw import draw
from evenglot.batches.load import load
from evenglot.corpus.store import open_store

RESULT = Path(__file__).parent / "results" / "padding.md"
BUDGETS = (512, 1024, 2048, 4096)


def main() -> None:
    lines = [
        "# Padding",
        "",
        "Made by `python -m benchmarks.padding STORE ...`: the share of padding among all tokens, both sides, of one",
        "epoch in the data's own proportions, for so many tokens a batch; in brackets the number of batches.",
        "",
        f"| store | pairs | {' | '.join(f'{budget:,}' for budget in BUDGETS)} |",
        "|:--|--:" + "|--:" * len(BUDGETS) + "|",
        *(row(Path(folder)) for folder in sys.argv[1:]),
        "",
        "Pairs of a batch can be alike on both sides only if there are batches enough, so tiny corpora stay above 4 %",
        "with large batches. Another order does not change that: 500,000 random exchanges of pairs between batches of",
        "tiny_webui at 2,048 tokens (annealing) saved 0.3 points, sorting by bands of lengths 0.9.",
    ]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def row(folder: Path) -> str:
    store = open_store(folder)
    corpora = {name: store.corpus(name, "train") for name in store.directions}
    interval = draw(store.sizes, store.sizes, seed=1, interval=0)
    plans = [load(corpora, interval, budget=budget, pad=1).plan for budget in BUDGETS]
    cells = [f"{plan.padding():.1%} ({len(plan.starts):,})" for plan in plans]
    return f"| {folder.name} | {len(interval):,} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
