"""What looks like a mistake before a run begins, but may be meant: a key for each doubt, and a line for a person."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evenglot.balance import FAINT_TAU, Balancer
from evenglot.batches.load import Loader
from evenglot.config import Config
from evenglot.corpus.store import Store

FEW_BATCHES = 8  # in an update: the lengths in it are not those of the corpus
FEW_INTERVALS = 10  # a game of fewer rounds is none

Doubts = Iterator[tuple[str, str]]


def doubts(config: Config, store: Store, processes: int, balancer: Balancer, loader: Loader, updates: int) -> Doubts:
    """All of them, for a run of so many updates that begins with the interval of this loader."""
    train, batches = config.train, config.batches.micro_batches
    yield from _rounds(config, balancer, loader, updates / len(loader))
    yield from _losses(balancer, batches)
    yield from _radius(balancer)
    if train.warmup >= train.updates:
        yield "warmup", f"train.warmup ({train.warmup}) is as long as the whole run; the rate never peaks"
    if train.patience is not None and not any("valid" in store.splits(name) for name in store.directions):
        yield "patience", "train.patience has nothing to go by: there is no validation text (data.valid)"
    if processes > batches:
        yield (
            "processes",
            f"{processes} processes share {batches} batches an update: some have nothing to do; raise "
            "batches.tokens_per_update or lower tokens_per_batch",
        )


def _rounds(config: Config, balancer: Balancer, loader: Loader, intervals: float) -> Doubts:
    """Does the run have enough intervals for the mixture to adapt?"""
    follows_losses = balancer.needs.losses is not None and balancer.cadence == "interval"
    if follows_losses and intervals < FEW_INTERVALS:
        pairs = max(1, round(sum(loader.interval.counts.values()) * intervals / (2 * FEW_INTERVALS)))
        better = f"with batches.interval_pairs: {pairs} it would be {2 * FEW_INTERVALS} times"
        if config.draw_options["rule"] == "released":  # it has a length of its own
            better = "train longer"
        times = f"the mixture is set {math.ceil(intervals)} times in this run"
        yield "intervals", f"{times}, too seldom to balance anything; {better}"


def _losses(balancer: Balancer, batches: int) -> Doubts:
    """Do the losses that the mixture answers tell of languages?"""
    better = balancer.steadier_estimator
    if better is not None and batches < FEW_BATCHES:
        yield (
            "estimator",
            f"batches hold sentences of like length; with {batches} an update, the mean of an update may tell of "
            f"lengths more than of languages; set balance.estimator: {better}",
        )


def _radius(balancer: Balancer) -> Doubts:
    """Can the mixture go anywhere? Our radius speaks of the rarest group, and it may be next to nothing."""
    if balancer.is_faint:
        p = balancer.groups.p
        rarest = balancer.groups.names[int(np.argmin(np.where(p > 0, p, 1)))]
        yield (
            "radius",
            f"{rarest} is so small that the mixture can go no farther from the data than tau = {FAINT_TAU} does "
            "(max_upsample speaks of the smallest); balance.rho=tau:1.5 goes farther",
        )
