"""The fraction of sentences with a copy of themselves in the same batch: python -m experiments.copies STORE

An interval as long as the data contains an oversampled corpus more than once; copies have the same length, and batches
are sorted by length. STORE is the prepared store of the runs of `related`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from evenglot.balance.static import temperature
from evenglot.batches.draw import draw
from evenglot.batches.load import load
from evenglot.corpus.store import Store, open_store

TEMPERATURES = (1.5, 2, 3, 5, 100)
BUDGET = 1024  # tokens per batch in related/conf.yaml


def main() -> None:
    """Print the fraction for the smallest corpus, by temperature and interval length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    store = open_store(parser.parse_args().store)
    smallest = min(store.sizes, key=lambda name: store.sizes[name])
    for tau in TEMPERATURES:
        epoch, tenth = (copies_in_batches(store, smallest, tau, parts) for parts in (1, 10))
        print(f"{smallest}, tau = {tau:g}: {epoch:.0%} with an interval of one pass, {tenth:.0%} with a tenth of it")


def copies_in_batches(store: Store, corpus: str, tau: float, parts: int) -> float:
    """The fraction in the first interval of seed 1."""
    sizes = store.sizes
    q = dict(zip(sizes, temperature(list(sizes.values()), tau).tolist(), strict=True))
    interval = draw(sizes, q, seed=1, interval=0, pairs=sum(sizes.values()) // parts)
    loader = load({name: store.corpus(name, "train") for name in sizes}, interval, budget=BUDGET, pad=0)
    found = drawn = 0
    for start, stop in zip(loader.plan.starts, loader.plan.stops, strict=True):
        rows = loader.plan.rows[start:stop]
        pairs = interval.pair[rows[interval.direction[rows] == interval.names.index(corpus)]]
        _, times = np.unique(pairs, return_counts=True)
        found, drawn = found + int(times[times > 1].sum()), drawn + len(pairs)
    return found / drawn


if __name__ == "__main__":
    main()
