"""Passes over each corpus in a run whose mixture follows from what was drawn alone."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from evenglot.balance.balancer import Balancer

STEPS = 500  # more would hardly change the result


def passes_of_run(balancer: Balancer, pairs: float, intervals: float) -> dict[str, float] | None:
    """Passes over each group, if so many pairs are drawn in so many intervals; None if they depend on training."""
    if not balancer.needs.pairs_drawn:
        return None
    balancer = deepcopy(balancer)
    passes = np.zeros(len(balancer.groups.names))
    steps = int(np.clip(round(intervals), 1, STEPS))
    for _ in range(steps):
        drawn = {name: share * pairs / steps for name, share in balancer.mixture.sample.items()}
        passes += balancer.groups.passes(drawn)
        balancer.update(drawn)
    return balancer.groups.keyed(passes)
