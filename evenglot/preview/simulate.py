"""Simulation of a strategy with given corpus sizes and scripted losses, without training. NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evenglot.balance import Balancer
from evenglot.batches.draw import interval_counts

Losses = Mapping[str, float]
LossScript = Sequence[Losses] | Callable[[int, Mapping[str, float]], Losses]


@dataclass
class Simulation:
    """Per interval and group: the mixture q, the number of pairs drawn and the losses; and the total passes."""

    names: tuple[str, ...]
    p: dict[str, float]
    mixtures: list[dict[str, float]] = field(default_factory=list)
    drawn: list[dict[str, int]] = field(default_factory=list)
    losses: list[dict[str, float]] = field(default_factory=list)
    passes: dict[str, float] = field(default_factory=dict)


def simulate(
    balancer: Balancer,
    losses: LossScript,
    intervals: int | None = None,
    *,
    rewards: Callable[[int], Mapping[str, float]] | None = None,
    interval_size: int | None = None,
    steps: int = 20,
    tokens_per_step: int = 65_536,
) -> Simulation:
    """Run the balancer on scripted losses for a number of intervals (default: the length of the script).

    `losses` is a list with one mapping per interval, or a function of the interval and of the passes over each corpus
    at its end, so that the loss of a group can fall with the data sampled. Each interval has `interval_size` pairs
    (default: the size of the data) and `steps` optimizer steps. Strategies that use gradients need `rewards`, a
    function of the interval.
    """
    if intervals is None:
        if callable(losses):
            raise ValueError("intervals: required if `losses` is a function")
        intervals = len(losses)
    if not callable(losses) and len(losses) < intervals:
        raise ValueError(f"losses: given for {len(losses)} of {intervals} intervals")
    balancer.serves("loss_weights", "example_weights")  # scripted losses do not depend on weights
    groups = balancer.groups
    sampled = np.zeros(len(groups.names))
    result = Simulation(groups.names, groups.keyed(groups.p))
    for interval in range(intervals):
        result.mixtures.append(balancer.q)
        sample = groups.vector(balancer.mixture.sample, "sample")
        drawn = interval_counts(groups.sizes, sample, interval_size)
        sampled += np.divide(drawn, groups.sizes, out=np.zeros_like(sampled), where=groups.sizes > 0)
        result.passes = groups.keyed(sampled)
        now = dict(losses(interval, result.passes) if callable(losses) else losses[interval])
        _observe_interval(balancer, groups.vector(now, "losses"), sample, steps, tokens_per_step)
        if balancer.needs.gradients is not None:
            if rewards is None:
                raise ValueError("rewards: required, because this strategy uses gradients")
            balancer.reward(rewards(interval))
        drawn_by_name = dict(zip(groups.names, drawn.tolist(), strict=True))
        balancer.update(drawn_by_name)
        result.drawn.append(drawn_by_name)
        result.losses.append(now)
    return result


def _observe_interval(
    balancer: Balancer, losses: np.ndarray, sample: np.ndarray, steps: int, tokens_per_step: int
) -> None:
    """Observe the same losses in every step, with tokens in proportion to the mixture; then on validation data."""
    counts = sample * tokens_per_step
    keyed = balancer.groups.keyed
    for _ in range(steps):
        balancer.observe(keyed(losses * counts), keyed(counts))
    balancer.observe(keyed(losses), keyed(np.ones_like(losses)), split="valid")


def learning_curves(
    sizes: Mapping[str, float],
    best: Mapping[str, float],
    *,
    worst: float = 8.0,
    half_way: float = 50_000,
    transfer: float = 0.05,
) -> Callable[[int, Mapping[str, float]], dict[str, float]]:
    """Artificial losses: those of each group fall from `worst` to its `best` as (1 + pairs / half_way)^(-1/2).

    `pairs` counts the sampled pairs of the group, plus the fraction `transfer` of those of all other groups. The curves
    show trends only and do not predict the losses of real models.
    """

    def losses(interval: int, passes: Mapping[str, float]) -> dict[str, float]:
        sampled = {name: passes[name] * sizes[name] for name in sizes}
        total = sum(sampled.values())
        return {
            name: best[name]
            + (worst - best[name]) * (1 + (sampled[name] + transfer * (total - sampled[name])) / half_way) ** -0.5
            for name in sizes
        }

    return losses
