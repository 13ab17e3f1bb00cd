"""The mixtures of a strategy that needs no training: they follow from the sizes of the corpora alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evenglot.balance import Needs
from evenglot.batches.draw import released_interval_counts
from evenglot.config import Config
from evenglot.stages import Stage


def planned(config: Config, sizes: Mapping[str, int], tokens: Mapping[str, int]) -> list[Stage]:
    """The stages of the configured strategy, for directions of these sizes in sentence pairs and target tokens.

    One without end if the mixture is constant, otherwise one per interval. ValueError if the strategy needs training.
    """
    strategy = config.balance.strategy
    if config.balance.description.needs not in (Needs(), Needs(pairs_drawn=True)):
        raise ValueError(
            f"balance.strategy: the mixtures of {strategy} depend on training; give the folder of a run, or use "
            "`evenglot simulate` for a preview"
        )
    groups = config.data.groups
    balancer = config.balancer(groups.sum(sizes), groups.sum(tokens))

    def shares() -> dict[str, float]:
        return groups.shares(balancer.mixture.sample, sizes)

    if balancer.cadence == "never":
        return [Stage(shares(), math.inf)]
    if config.train.intervals is None:
        raise ValueError(f"train.intervals: the length of {strategy} is unknown; set the number of intervals")
    stages = []
    for _ in range(config.train.intervals):
        now = shares()
        pairs = _interval_pairs(config, sizes, now)
        stages.append(Stage(now, pairs))
        balancer.update(groups.sum({name: pairs * share for name, share in now.items()}))
    return stages


def _interval_pairs(config: Config, sizes: Mapping[str, int], shares: Mapping[str, float]) -> float:
    options = config.draw_options
    if options["rule"] == "released":
        counts, left_over = released_interval_counts(
            list(sizes.values()), [shares[name] for name in sizes], options["max_scale_up"]
        )
        return float(counts.sum() + left_over)
    return float(options["pairs"] or sum(sizes.values()))
