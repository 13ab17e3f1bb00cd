"""A dry run of the configured strategy, compared to two temperatures: mixtures and passes over the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.table import Table

from evenglot.balance import Balancer, create, keep_mixture
from evenglot.config import Config
from evenglot.preview.simulate import Simulation, learning_curves, simulate
from evenglot.runs.events import BalanceEvent, ConfigEvent, DirectionFacts, Event, IntervalEvent
from evenglot.runs.history import History, history
from evenglot.tables import table
from evenglot.wording import counted

TAUS = (2, 5)
BEST = 2.0  # final loss of a group that has no baseline


@dataclass(frozen=True)
class DryRun:
    """The configured strategy, run on artificial losses that fall with the pairs sampled of each group."""

    strategy: str
    sizes: Mapping[str, int]
    simulation: Simulation
    temperatures: Mapping[int, Simulation]

    @property
    def table(self) -> Table:
        """A table with one row per group, largest first."""
        rows = {}
        for name in sorted(self.sizes, key=lambda name: (-self.sizes[name], name)):
            shares = [mixture[name] for mixture in self.simulation.mixtures]
            percents = [
                f"{100 * share:.3g}" for share in (self.simulation.p[name], min(shares), shares[-1], max(shares))
            ]
            passes = [f"{each.passes[name]:.1f}" for each in (self.simulation, *self.temperatures.values())]
            rows[name] = [f"{self.sizes[name]:,}", *percents, *passes]
        columns = [
            "pairs",
            "p %",
            "least %",
            "last %",
            "most %",
            "passes",
            *(f"tau {tau}" for tau in self.temperatures),
        ]
        return table(
            f"{self.strategy} in {counted(len(self.simulation.mixtures), 'interval')}, simulated", rows, columns
        )

    @property
    def history(self) -> History:
        """The simulation as the history of a run, with intervals instead of updates, for drawing figures."""
        facts = {name: DirectionFacts(pairs=self.sizes[name], p=self.simulation.p[name]) for name in self.sizes}
        events: list[Event] = [ConfigEvent(step=0, strategy=f"{self.strategy}, simulated", directions=facts)]
        told = zip(self.simulation.mixtures, self.simulation.drawn, self.simulation.losses, strict=True)
        for interval, (mixture, drawn, losses) in enumerate(told):
            begins = IntervalEvent(step=interval, mixture=mixture, target=mixture, pairs=drawn)
            events += [begins, BalanceEvent(step=interval + 1, losses=losses)]
        return history(events, unit="intervals")


def dry_run(
    config: Config,
    sizes: Mapping[str, int],
    tokens: Mapping[str, int],
    intervals: int,
    interval_pairs: int | None = None,
) -> DryRun:
    """Simulate the strategy; `sizes` and `tokens` are those of the groups. Baseline files are ignored.

    `interval_pairs` are sampled in an interval (default: as many as the data have).
    """
    balance = config.balance.without_baseline_file()
    balancer = config.balancer(sizes, tokens, balance)
    if balancer.needs.gradients is not None:
        raise ValueError(
            f"balance.strategy: {balance.strategy} needs gradients, which are not simulated; choose another strategy"
        )
    losses = learning_curves(sizes, _best(balancer), half_way=sum(sizes.values()) / 10)

    def simulated(each: Balancer) -> Simulation:
        return simulate(each, losses, intervals, interval_size=interval_pairs)

    temperatures = {tau: simulated(_temperature(tau, sizes)) for tau in TAUS}
    return DryRun(balance.strategy, sizes, simulated(balancer), temperatures)


def _temperature(tau: int, sizes: Mapping[str, int]) -> Balancer:
    strategy, options = keep_mixture(f"tau:{tau}")
    return create(strategy, sizes, **options)


def _best(balancer: Balancer) -> dict[str, float]:
    known = balancer.baseline
    names = balancer.groups.names
    return dict.fromkeys(names, BEST) if known is None or not known.any() else balancer.groups.keyed(known)
