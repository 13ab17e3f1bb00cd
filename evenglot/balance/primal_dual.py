"""Primal-dual rules: small steps of the adversary after every optimizer step, instead of a full best response.

Losses are those of the latest batch, with running means for groups that were not in it (losses.LatestBatch), so that
rare groups take as many steps as frequent ones. The step t of the model uses q_t; the losses it produces lead to q_t+1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenglot.balance.best_response import alone_behind
from evenglot.robust import ChiSquareBall
from evenglot.robust.validate import Vector, number


def exponentiated_gradient(q: Vector, gradient: Vector, step: float) -> Vector:
    """q_i exp(step g_i), normalised; in logs, so that nothing overflows. A share of 0 stays 0."""
    used = q > 0
    logs = np.log(q[used]) + step * gradient[used]
    result = np.zeros_like(q)
    result[used] = np.exp(logs - logs.max())
    result /= result.sum()
    return result


@dataclass(frozen=True, eq=False)
class ExponentiatedGradient:
    """Group DRO (Sagawa et al. 2020): q_i <- q_i exp(step v_i) / Z over the whole simplex.

    With `smoothing` = a > 0 (CTC-DRO, Bartelds et al. 2026): q_i <- q_i exp(step v_i / (q_i + a)) / Z. The larger its
    share already is, the less a group gains, so a group whose loss is high by nature does not take everything.
    """

    centre: Vector
    step: float = 0.01
    smoothing: float | None = None

    def __post_init__(self) -> None:
        number(self.step, "step", 0)
        if self.smoothing is not None:
            number(self.smoothing, "smoothing", 0, above=True)

    def start(self, caps: Vector | None) -> Vector:
        """The mixture given as `start`: uniform for the reference algorithm."""
        return self.centre

    def respond(self, q: Vector, v: Vector, caps: Vector | None) -> Vector:
        """One step of exponentiated gradient ascent."""
        gradient = v if self.smoothing is None else v / (q + self.smoothing)
        return exponentiated_gradient(q, gradient, self.step)

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> None:
        """A group that stays behind gets everything in the end."""


@dataclass(frozen=True, eq=False)
class ProjectedGradient:
    """chi-square primal-dual: q <- projection of q + step v on the ball."""

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
        """One step of projected gradient ascent."""
        return ChiSquareBall(self.centre, self.rho, self.floor).project(q + self.step * v)

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> Vector:
        """The best response in the ball if this group alone is behind."""
        return ChiSquareBall(self.centre, self.rho, self.floor).best_response(alone_behind(group, len(self.centre)))
