"""A dry run: what would a strategy do, given corpus sizes and a script of losses? Nothing is trained. NumPy only."""

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
    """What happened in each interval, by group: the mixture q, the pairs drawn, the losses; and passes in all."""

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
    """Run the balancer against scripted losses for some intervals (default: as many as are scripted).

    `losses` is a list, one mapping an interval, or a function of the interval and of the passes over each corpus at its
    end, so that a script can let a group improve when it is shown more. Each interval has `interval_size` pairs
    (default: as many as there are) and `steps` optimizer steps. Strategies that ask for gradients need `rewards`, a
    function of the interval.
    """
    if intervals is None:
        if callable(losses):
            raise ValueError("intervals: needed when the losses are a function")
        intervals = len(losses)
    if not callable(losses) and len(losses) < intervals:
        raise ValueError(f"losses: {len(losses)} intervals are scripted, {intervals} are asked for")
    groups = balancer.groups
    shown = np.zeros(len(groups.names))
    result = Simulation(groups.names, groups.keyed(groups.p))
    for interval in range(intervals):
        result.mixtures.append(balancer.q)
        sample = groups.vector(balancer.mixture.sample, "sample")
        drawn = interval_counts(groups.sizes, sample, interval_size)
        shown += np.divide(drawn, groups.sizes, out=np.zeros_like(shown), where=groups.sizes > 0)
        result.passes = groups.keyed(shown)
        now = dict(losses(interval, result.passes) if callable(losses) else losses[interval])
        _observe_interval(balancer, groups.vector(now, "losses"), sample, steps, tokens_per_step)
        if balancer.needs.gradients is not None:
            if rewards is None:
                raise ValueError("rewards: this strategy learns from gradients; script its rewards too")
            balancer.reward(rewards(interval))
        drawn_by_name = dict(zip(groups.names, drawn.tolist(), strict=True))
        balancer.update(drawn_by_name)
        result.drawn.append(drawn_by_name)
        result.losses.append(now)
    return result


def _observe_interval(
    balancer: Balancer, losses: np.ndarray, sample: np.ndarray, steps: int, tokens_per_step: int
) -> None:
    """Every step has the same tokens of each group, in proportion to its share; validation follows."""
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
    """A script in which each group's loss falls from `worst` to its `best` as (1 + pairs / half_way)^(-1/2).

    Pairs are those shown of the group itself, plus the share `transfer` of everybody else's: related languages help.
    It is a caricature with the right signs, for dry runs; it claims nothing about real models.
    """

    def losses(interval: int, passes: Mapping[str, float]) -> dict[str, float]:
        shown = {name: passes[name] * sizes[name] for name in sizes}
        total = sum(shown.values())
        return {
            name: best[name]
            + (worst - best[name]) * (1 + (shown[name] + transfer * (total - shown[name])) / half_way) ** -0.5
            for name in sizes
        }

    return losses
