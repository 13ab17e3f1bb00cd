"""Best responses that do not follow noise.

A best response always uses the whole radius, however small the differences of the losses. If these are no larger than
their standard errors explain, it moves at random. So the radius and the step from the last mixture are multiplied by
the share of the spread of the losses that is not noise. Without noise this is the exact best response.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenglot.balance.best_response import ChiSquareResponse, reachable
from evenglot.robust.solvers import dot
from evenglot.robust.validate import Vector

DEVIATIONS = 2.0  # how far above its mean the spread that is due to noise may lie
RESIDUAL_ROUNDING = 1e-7  # relative; smaller standard errors are differences of nearly equal squares
ROUNDING = 1e-12  # relative error of a loss that has no other noise


@dataclass(frozen=True, eq=False)
class NoiseAware:
    """The responses of a rule, weakened by the noise of the losses."""

    rule: ChiSquareResponse

    def respond(self, q: Vector, v: Vector, errors: Vector, caps: Vector | None) -> Vector:
        """The mixture that follows q for excess losses v with these standard errors."""
        share = signal_share(v, errors, self.rule.centre)
        weakened = replace(self.rule, rho=share * self.rule.rho)
        response = weakened.respond(q, v, caps)
        damped = (1 - share) * q + share * response
        over = caps is not None and (damped > reachable(caps, self.rule.centre) * (1 + 1e-12)).any()
        return response if over else damped  # caps may have tightened since q was chosen


def with_rounding(errors: Vector, losses: Vector) -> Vector:
    """Standard errors of losses, which are at least their rounding errors: equal losses must not differ by these."""
    size = np.abs(losses)
    return np.where(errors > RESIDUAL_ROUNDING * size, errors, ROUNDING * size)


def signal_share(v: Vector, errors: Vector, centre: Vector) -> float:
    """Share of the spread of v around its mean, weighted by the centre, that noise does not explain: 0 to 1.

    The ball measures distance with the same weights. With equal true values and independent errors, the spread is about
    sum_i w_i chi2_1 with w_i = c_i (1 - c_i) error_i^2, whose mean is sum w and whose variance is 2 sum w^2.
    """
    weights = centre * (1 - centre) * errors**2
    noise = weights.sum() + DEVIATIONS * np.sqrt(2 * (weights**2).sum())
    spread = dot(centre, (v - dot(centre, v)) ** 2)
    return float(1 - noise / spread) if spread > noise else 0.0
