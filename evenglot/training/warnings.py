"""Warnings about a configuration that may be a mistake, before a run starts: (kind, message) of each."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evenglot.balance import FAINT_TAU, Balancer
from evenglot.batches.load import Loader
from evenglot.config import Config
from evenglot.config.intervals import lag_warning
from evenglot.corpus.store import Store

FEW_BATCHES = 8  # per update: so few do not represent the lengths in the corpus
FEW_INTERVALS = 10  # fewer do not let the mixture adapt

Found = Iterator[tuple[str, str]]


def warnings_about(
    config: Config, store: Store, processes: int, balancer: Balancer, loader: Loader, updates: int
) -> Found:
    """All warnings for a run of `updates` updates; `loader` has its first interval."""
    train, batches = config.train, config.batches.micro_batches
    yield from _rounds(config, balancer, loader, updates / len(loader))
    yield from _lag(config, loader)
    yield from _losses(balancer, batches)
    yield from _radius(balancer)
    if train.warmup >= train.updates:
        yield (
            "warmup",
            f"train.warmup ({train.warmup}) is at least as long as the run; the learning rate never reaches its peak",
        )
    if train.patience is not None and not any("valid" in store.splits(name) for name in store.directions):
        yield "patience", "train.patience has no effect without validation text; set data.valid"
    if processes > batches:
        yield (
            "processes",
            f"{processes} processes share {batches} batches per update, so some are idle; raise "
            "batches.tokens_per_update or lower batches.tokens_per_batch",
        )


def _rounds(config: Config, balancer: Balancer, loader: Loader, intervals: float) -> Found:
    """Too few intervals for the mixture to adapt."""
    follows_losses = balancer.needs.losses is not None and balancer.cadence == "interval"
    if follows_losses and intervals < FEW_INTERVALS:
        key = next(iter(config.batches.interval_keys), "interval_pairs")
        length = getattr(config.batches, key) or sum(loader.interval.counts.values())
        shorter = max(1, round(length * intervals / (2 * FEW_INTERVALS)))
        better = f"set batches.{key}: {shorter} to update it {2 * FEW_INTERVALS} times"
        if config.draw_options["rule"] == "released":  # it determines the length of the interval
            better = "train longer"
        times = f"the mixture is updated only {math.ceil(intervals)} times in this run"
        yield "intervals", f"{times}, too few for it to adapt; {better}"


def _lag(config: Config, loader: Loader) -> Found:
    """A mixture that changes at every update and is sampled long after."""
    if config.balance.description.samples_every_step and (message := lag_warning(len(loader) - 1)) is not None:
        yield "lag", message


def _losses(balancer: Balancer, batches: int) -> Found:
    """Loss estimates that depend on sentence length more than on the language."""
    better = balancer.steadier_estimator
    if better is not None and batches < FEW_BATCHES:
        yield (
            "estimator",
            f"each batch has sentences of similar length; with {batches} batches per update, the mean loss of an "
            f"update may depend on length more than on the language; set balance.estimator: {better}",
        )


def _radius(balancer: Balancer) -> Found:
    """A radius too small to matter: max_upsample bounds the smallest group, which may be tiny."""
    if balancer.is_faint:
        p = balancer.groups.p
        rarest = balancer.groups.names[int(np.argmin(np.where(p > 0, p, 1)))]
        yield (
            "radius",
            f"{rarest} is so small that the mixture stays closer to proportional than tau = {FAINT_TAU} "
            "(max_upsample limits the smallest group); set balance.rho=tau:1.5 for a larger radius",
        )
