"""Warnings about settings that may be a mistake, the same from `evenglot check` and at the start of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from evenglot.balance import FAINT_TAU, Balancer
from evenglot.config.intervals import lag_warning
from evenglot.config.models import Config
from evenglot.wording import counted

FEW_BATCHES = 8  # per update: so few do not represent the lengths in the corpus
FEW_INTERVALS = 10  # fewer do not let the mixture adapt

Doubts = Iterator[tuple[str, str]]  # kind and message


@dataclass(frozen=True)
class Length:
    """The length of a run and of its first interval; estimated before the data are prepared."""

    updates: float
    interval_updates: float
    interval_pairs: int


def interval_pairs(config: Config, pairs: Mapping[str, int], tokens: Mapping[str, tuple[int, int]]) -> int | None:
    """Sentence pairs of an interval, estimated where it is counted in updates or tokens; None: one pass."""
    batches, all_pairs = config.batches, sum(pairs.values())
    if config.interval_updates is not None:
        share = config.interval_updates * batches.tokens_per_update / max(sum(map(max, tokens.values())), 1)
        return max(1, round(all_pairs * (share if batches.interval_updates is not None else min(share, 1))))
    if batches.interval_tokens is not None:
        return max(1, round(all_pairs * batches.interval_tokens / max(sum(target for _, target in tokens.values()), 1)))
    return batches.interval_pairs


def estimated_length(config: Config, pairs: Mapping[str, int], tokens: Mapping[str, tuple[int, int]]) -> Length:
    """The length of a run on corpora of so many pairs, and source and target tokens."""
    drawn = interval_pairs(config, pairs, tokens) or sum(pairs.values())
    updates_of_a_pass = sum(map(max, tokens.values())) / config.batches.tokens_per_update
    per_interval = max(1.0, updates_of_a_pass * drawn / sum(pairs.values()))
    train = config.train
    updates = train.updates if train.intervals is None else min(train.updates, train.intervals * per_interval)
    return Length(updates, per_interval, drawn)


def doubts_about(config: Config, balancer: Balancer, length: Length, has_validation: bool) -> Doubts:
    """All warnings that depend on the settings and the sizes of the corpora."""
    train = config.train
    yield from _rounds(config, balancer, length)
    yield from _lag(config, length)
    yield from _losses(balancer, config.batches.micro_batches)
    yield from _radius(balancer)
    yield from _units(config)
    if train.warmup >= train.updates:
        yield (
            "warmup",
            f"train.warmup ({train.warmup}) is at least as long as the run; the learning rate never reaches its peak",
        )
    if train.patience is not None and not has_validation:
        yield "patience", "train.patience has no effect without validation text; set data.valid"


def _rounds(config: Config, balancer: Balancer, length: Length) -> Doubts:
    """Too few intervals for the mixture to adapt."""
    intervals = length.updates / length.interval_updates
    follows_losses = balancer.needs.losses is not None and balancer.cadence == "interval"
    if follows_losses and intervals < FEW_INTERVALS:
        key = next(iter(config.batches.interval_keys), "interval_pairs")
        now = getattr(config.batches, key) or length.interval_pairs
        shorter = max(1, float(f"{now * intervals / (2 * FEW_INTERVALS):.2g}"))
        better = f"set batches.{key}: {shorter:.0f} to update it {2 * FEW_INTERVALS} times"
        if config.draw_options["rule"] == "released":  # it determines the length of the interval
            better = "train longer"
        times = counted(math.ceil(intervals), "time")
        told = f"the mixture is updated only {times} in this run, too few for it to adapt"
        if intervals < 1:
            told = "the mixture is never updated: the run is shorter than an interval"
        yield "intervals", f"{told}; {better}"


def _lag(config: Config, length: Length) -> Doubts:
    """A mixture that changes at every update and is sampled long after."""
    message = lag_warning(round(length.interval_updates) - 1)
    if message is not None and config.balance.description.samples_every_step:
        yield "lag", message


def _losses(balancer: Balancer, batches: int) -> Doubts:
    """Loss estimates that depend on sentence length more than on the language."""
    better = balancer.steadier_estimator
    if better is not None and batches < FEW_BATCHES:
        yield (
            "estimator",
            f"each batch has sentences of similar length; with {counted(batches, 'batch', 'batches')} per update, the "
            f"mean loss of an update may depend on length more than on the language; set balance.estimator: {better}",
        )


def _units(config: Config) -> Doubts:
    """Losses per token where the target languages differ: a token of one is worth more than a token of another."""
    targets = {direction.tgt for direction in config.data.directions}
    if config.balance.options.get("loss_per") == "token" and len(targets) > 1:
        yield (
            "unit",
            "losses per token of different target languages are not comparable; set balance.loss_per: character",
        )


def _radius(balancer: Balancer) -> Doubts:
    """A radius too small to matter: max_upsample bounds the smallest group, which may be tiny."""
    if balancer.is_faint:
        p = balancer.groups.p
        rarest = balancer.groups.names[int(np.argmin(np.where(p > 0, p, 1)))]
        yield (
            "radius",
            f"{rarest} is so small that the mixture stays closer to proportional than tau = {FAINT_TAU} "
            "(max_upsample limits the smallest group); set balance.rho=tau:1.5 for a larger radius",
        )
