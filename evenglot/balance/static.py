"""Mixtures that depend only on sizes and time: proportional, temperature, uniform, mix, UniMax; and their schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenglot.balance.balancer import Balancer
from evenglot.balance.description import Description
from evenglot.balance.groups import Groups
from evenglot.balance.saved import SavedState
from evenglot.robust.solvers import chi_square_divergence
from evenglot.robust.validate import OptionError, Vector, distribution, number, vector

MixtureSpec = str | Mapping[str, float]


def temperature(sizes: ArrayLike, tau: float) -> Vector:
    """Shares proportional to size^(1/tau): tau = 1 is proportional, tau = inf uniform over the groups that have data.

    Some toolkits call the exponent 1/tau the temperature.
    """
    p = distribution(sizes, "sizes")
    has_data = p > 0
    q = np.zeros_like(p)
    logs = np.log(p[has_data] / p.max())  # in logs, to avoid underflow and overflow
    with np.errstate(over="ignore"):
        q[has_data] = np.exp(logs / (np.inf if tau == np.inf else number(tau, "tau", 0, above=True)))
    return np.asarray(q / q.sum())


def mix(sizes: ArrayLike, alpha: float) -> Vector:
    """Shares (1 - alpha) p + alpha / N: alpha = 0 is proportional, 1 uniform over the N groups that have data.

    A temperature that takes as much from the largest group gives the smallest ones less.
    """
    p = distribution(sizes, "sizes")
    weight = number(alpha, "alpha", 0, 1)
    return np.asarray((1 - weight) * p + weight * temperature(p, np.inf))


def unimax(sizes: ArrayLike, passes: float, budget: float | None = None) -> Vector:
    """UniMax (Chung et al. 2023): as uniform as possible with no corpus repeated more than `passes` times.

    The budget of examples (default: one pass over all data) is divided equally among the groups, smallest first; a
    group gets at most passes * size, and the rest goes to the larger groups.
    """
    size = vector(sizes, "sizes")
    limit = number(passes, "passes", 0)
    total = float(size.sum() if budget is None else number(budget, "budget", 0))
    if total > limit * size.sum() * (1 + 1e-12):
        raise OptionError(
            "passes",
            f"{limit:g} passes over {size.sum():g} examples are less than the budget of {total:g}; "
            f"expected at least {total / size.sum():.4g} passes",
        )
    given = np.zeros_like(size)
    left = total
    for rank, group in enumerate(np.argsort(size, kind="stable")):
        given[group] = min(left / (size.size - rank), limit * size[group])
        left -= given[group]
    return distribution(given, "budget")


def mixture_of(spec: MixtureSpec, groups: Groups, argument: str) -> Vector:
    """A mixture by name ('data', 'uniform', 'tau:3', 'mix:0.5', 'unimax:20') or as shares by group, in their unit."""
    if isinstance(spec, Mapping):
        shares = groups.vector(spec, argument)
        for name, share, has in zip(groups.names, shares, groups.p, strict=True):
            if share > 0 and has == 0:
                raise OptionError(argument, f"{name!r} has a share but no data; set its share to 0")
        return distribution(shares, argument)
    name, _, value = str(spec).partition(":")
    try:
        if name in ("data", "proportional") and not value:
            return groups.p
        if name == "uniform" and not value:
            return temperature(groups.p, np.inf)
        if name in ("tau", "temperature"):
            return temperature(groups.p, float(value))
        if name == "mix":
            return mix(groups.p, float(value))
        if name == "unimax":
            return unimax(groups.p, float(value))
    except ValueError as error:
        raise OptionError(argument, f"{spec!r}: {error}") from error
    raise OptionError(
        argument, f"expected 'data', 'uniform', 'tau:3', 'mix:0.5', 'unimax:20' or shares by group, got {spec!r}"
    )


def radius_of(rho: float | str, groups: Groups, centre: Vector) -> float:
    """The radius, given as a number or as a mixture on the surface of the ball."""
    return chi_square_divergence(mixture_of(rho, groups, "rho"), centre) if isinstance(rho, str) else rho


def describe_temperature(*, tau: float | None, **others: Any) -> Description:
    """Describe a constant temperature; None stands for inf, which JSON cannot represent."""
    return Description(tau=np.inf if tau is None else float(tau))


def describe_schedule(*, points: Mapping[Any, Any], **others: Any) -> Description:
    """Describe a schedule: the mixture changes between intervals if there are several points."""
    return Description(cadence="interval" if len(points) > 1 else "never")


class Schedule(Balancer):
    """Fixed mixtures, each starting at a given interval; a single one at 0 is a static strategy.

    `points` maps interval numbers to mixtures. Between two points the earlier mixture applies, or with `interpolate`
    a linear interpolation of both.
    """

    def __init__(self, groups: Groups, points: Mapping[int, Vector], interpolate: bool = False) -> None:
        if not points or not all(isinstance(t, int) for t in points) or min(points) != 0:
            raise OptionError("points", "expected mixtures by interval number, the first at 0")
        self._times = sorted(points)
        self.points = [points[t] for t in self._times]
        self._interpolate = interpolate
        super().__init__(groups, self.points[0])
        self.cadence = describe_schedule(points=points).cadence

    def extremes(self, group: str) -> list[Vector]:
        """The points: between them, shares are constant or interpolated linearly."""
        return self.points

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """End an interval; True if the mixture changed."""
        super().update(drawn)
        before, self._q = self._q, self._at(self.intervals)
        return not np.array_equal(before, self._q)

    def _load(self, state: SavedState) -> None:
        super()._load(state)
        self._q = self._at(self.intervals)  # the mixture follows from the interval

    def _at(self, interval: int) -> Vector:
        now = int(np.searchsorted(self._times, interval, side="right")) - 1
        if not self._interpolate or now == len(self._times) - 1:
            return self.points[now]
        start, end = self._times[now], self._times[now + 1]
        way = (interval - start) / (end - start)
        return (1 - way) * self.points[now] + way * self.points[now + 1]
