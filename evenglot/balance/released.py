"""The q-update of the paper's released training code, only for comparison with published results.

It differs from the paper: a floor on the ratios q/p inside the search and, for TED, a clamp after it, so that the
response does not reach the chi-square radius (docs/methods.md). Where the released code returns NaN (equal losses,
ties, an unreachable radius), this version returns the limit of its search. For training, use the preset `recommended`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenglot.balance.best_response import alone_behind
from evenglot.robust import ChiSquareBall
from evenglot.robust.solvers import dot
from evenglot.robust.validate import Vector


@dataclass(frozen=True, eq=False)
class ReleasedResponse:
    """q ~ p max(r(eta), ratio_floor), with r(eta) the ratios of a best response and eta s.t. chi-square(q, p) = rho."""

    centre: Vector
    rho: float
    ratio_floor: float = 0.2
    clamp_to_min_p: bool = False

    def start(self, caps: Vector | None) -> Vector:
        """The data proportions."""
        return self.centre

    def respond(self, q: Vector, v: Vector, caps: Vector | None) -> Vector:
        """The update of the released code; it does not support caps."""
        ball = ChiSquareBall(self.centre, self.rho)
        admitted = self.centre > 0
        u = np.where(admitted, v - v[admitted].max(), 0.0)
        if u.min() == 0 or self.rho == 0:
            return self.centre.copy()
        u = u / -u.min()

        # chi-square grows with eta; bisection on the distance of eta below its maximum, in logs
        low, high = -600.0, 600.0
        for _ in range(200):
            middle = (low + high) / 2
            if ball.divergence(self._floored(u, np.exp(middle))) > self.rho:
                low = middle
            else:
                high = middle
        q = self._floored(u, np.exp(high))
        if self.clamp_to_min_p:
            q = np.where(admitted, np.maximum(q, self.centre[admitted].min()), 0.0)
            q /= q.sum()
        return q

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> Vector:
        """The response if only this group has excess loss, without the clamp, which would reduce its share."""
        return replace(self, clamp_to_min_p=False).respond(start, alone_behind(group, len(self.centre)), None)

    def _floored(self, u: Vector, below_top: float) -> Vector:
        lifted = np.maximum(u + below_top, 0.0)
        ratio = lifted / dot(self.centre, lifted)
        q = self.centre * np.maximum(ratio, self.ratio_floor)
        return np.asarray(q / q.sum())
