"""Primal-dual rules: a small ascent step on the mixture after every optimizer step, instead of a full best response.

Losses are those of the latest batch, or running means for groups that are not in it (losses.LatestBatch), so that
all groups are updated equally often. Step t of the model uses q_t; its losses determine q_t+1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenglot.balance.best_response import alone_behind
from evenglot.robust import ChiSquareBall
from evenglot.robust.validate import Vector, number


def exponentiated_gradient(q: Vector, gradient: Vector, step: float) -> Vector:
    """q_i exp(step g_i), normalised; computed in logs to avoid overflow. A share of 0 stays 0.

    Where even step g_i overflows, the result is the limit: only the groups with the largest gradient have a share.
    """
    used = q > 0
    with np.errstate(over="ignore"):
        rise = step * gradient[used]
        if not np.isfinite(rise).all():
            rise = step * (gradient[used] - gradient[used].max())  # 0 or below
        logs = np.log(q[used]) + rise
        result = np.zeros_like(q)
        result[used] = np.exp(logs - logs.max())
    result /= result.sum()
    return result


@dataclass(frozen=True, eq=False)
class ExponentiatedGradient:
    """Group DRO (Sagawa et al. 2020): q_i <- q_i exp(step v_i) / Z over the whole simplex.

    With `smoothing` = a > 0 (CTC-DRO, Bartelds et al. 2026): q_i <- q_i exp(step v_i / (q_i + a)) / Z. Groups with a
    large share grow more slowly, so a group with an inherently high loss does not take the whole mixture.
    """

    centre: Vector
    step: float = 0.01
    smoothing: float | None = None

    def __post_init__(self) -> None:
        number(self.step, "step", 0)
        if self.smoothing is not None:
            number(self.smoothing, "smoothing", 0, above=True)

    def start(self, caps: Vector | None) -> Vector:
        """The mixture given as option `start`; uniform in the reference algorithm."""
        return self.centre

    def respond(self, q: Vector, v: Vector, caps: Vector | None) -> Vector:
        """One step of exponentiated gradient ascent."""
        gradient = v if self.smoothing is None else v / (q + self.smoothing)
        return exponentiated_gradient(q, gradient, self.step)

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> None:
        """No limit: a group with constantly larger excess loss takes the whole mixture in the limit."""


@dataclass(frozen=True, eq=False)
class ProjectedGradient:
    """Chi-square primal-dual: q <- projection of q + step v onto the ball."""

    centre: Vector
    rho: float
    step: float = 1e-3
    floor: float = 0.0

    def __post_init__(self) -> None:
        number(self.step, "step", 0)
        ChiSquareBall(self.centre, self.rho, self.floor)

    def start(self, caps: Vector | None) -> Vector:
        """The centre."""
        return self.centre

    def respond(self, q: Vector, v: Vector, caps: Vector | None) -> Vector:
        """One step of projected gradient ascent; the best response, its limit, if the step overflows."""
        ball = ChiSquareBall(self.centre, self.rho, self.floor)
        with np.errstate(over="ignore"):
            moved = q + self.step * v
        return ball.project(moved) if np.isfinite(moved).all() else ball.best_response(v)

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> Vector:
        """The best response in the ball if only this group has excess loss."""
        return ChiSquareBall(self.centre, self.rho, self.floor).best_response(alone_behind(group, len(self.centre)))
