"""Best-response rules: the worst-case mixture in an uncertainty set for excess losses v (chi-IBR, CVaR-IBR)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evenglot.robust import ChiSquareBall, CVaR
from evenglot.robust.validate import Vector, number


class Rule(Protocol):
    """Maps the current mixture and the excess losses to the next mixture, subject to optional upper caps."""

    @property
    def centre(self) -> Vector:
        """The centre of the uncertainty set."""

    def start(self, caps: Vector | None) -> Vector:
        """The initial mixture."""

    def respond(self, q: Vector, v: Vector, caps: Vector | None) -> Vector:
        """The mixture that follows q, where v = losses - baselines."""

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> Vector | None:
        """The response with the largest possible share of a group; None: no limit.

        `start` is the initial mixture, under the initial caps; `caps` are the loosest caps of the run.
        """


@dataclass(frozen=True, eq=False)
class ChiSquareResponse:
    """q = argmax <q, v> with chi-square(q, centre) <= rho and q >= floor * centre."""

    centre: Vector
    rho: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        ChiSquareBall(self.centre, self.rho, self.floor)  # rejects bad settings now, not after the first interval

    def start(self, caps: Vector | None) -> Vector:
        """The centre, or the mixture nearest to it that satisfies the caps."""
        return nearest_under(caps, self.centre, self.floor)

    def respond(self, q: Vector, v: Vector, caps: Vector | None) -> Vector:
        """The best response; if the caps exclude the whole ball, the feasible mixture nearest to the centre."""
        if caps is None:
            return ChiSquareBall(self.centre, self.rho, self.floor).best_response(v)
        nearest = nearest_under(caps, self.centre, self.floor)
        rho = max(self.rho, ChiSquareBall(self.centre, 0).divergence(nearest))
        return ChiSquareBall(self.centre, rho, self.floor, reachable(caps, self.centre)).best_response(v)

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> Vector:
        """The best response if only this group has excess loss; rho is at least the divergence of `start`."""
        rho = max(self.rho, ChiSquareBall(self.centre, 0).divergence(start))
        rule = replace(self, rho=rho, floor=kept_floor(self.floor, start, self.centre))
        return rule.respond(start, alone_behind(group, len(self.centre)), caps)


@dataclass(frozen=True, eq=False)
class CVaRResponse:
    """q = argmax <q, v> with floor * centre <= q <= centre / alpha."""

    centre: Vector
    alpha: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        CVaR(self.centre, self.alpha, self.floor)

    def start(self, caps: Vector | None) -> Vector:
        """The centre, or the mixture nearest to it that satisfies the caps."""
        return nearest_under(caps, self.centre, self.floor)

    def respond(self, q: Vector, v: Vector, caps: Vector | None) -> Vector:
        """The best response; if the caps exclude the whole set, the feasible mixture nearest to the centre."""
        if caps is None:
            return CVaR(self.centre, self.alpha, self.floor).best_response(v)
        caps = reachable(caps, self.centre)
        limit = np.where(self.centre > 0, 1.0, 0.0) if self.alpha == 0 else self.centre / self.alpha
        if np.minimum(caps, limit).sum() < 1:
            return nearest_under(caps, self.centre, self.floor)
        return CVaR(self.centre, self.alpha, self.floor, caps).best_response(v)

    def farthest(self, group: int, start: Vector, caps: Vector | None) -> Vector:
        """The best response if only this group has excess loss; alpha is ignored if `start` is outside the set."""
        beyond = self.alpha > 0 and (start > self.centre / self.alpha * (1 + 1e-12)).any()
        floor = kept_floor(self.floor, start, self.centre)
        rule = replace(self, alpha=0.0 if beyond else self.alpha, floor=floor)
        return rule.respond(start, alone_behind(group, len(self.centre)), caps)


def kept_floor(floor: float, start: Vector, centre: Vector) -> float:
    """The floor, lowered to what the initial mixture satisfies: caps may be below the floor. Later caps are looser."""
    used = centre > 0
    return min(floor, float((start[used] / centre[used]).min()))


def alone_behind(group: int, size: int) -> Vector:
    """Excess losses of `size` groups: 1 for the given group, 0 for all others."""
    excess = np.zeros(size)
    excess[group] = 1.0
    return excess


def nearest_under(caps: Vector | None, centre: Vector, floor: float) -> Vector:
    """The mixture q <= caps with the least chi-square divergence from the centre."""
    if caps is None:
        return centre
    indifferent = np.zeros_like(centre)  # alpha = 0 is the whole simplex, and ties are resolved towards the centre
    return CVaR(centre, 0.0, floor, reachable(caps, centre)).best_response(indifferent)


def reachable(caps: Vector, centre: Vector) -> Vector:
    """Feasible caps: if those of the centre's groups sum to less than 1, all are scaled up by the same factor."""
    allowed = caps[centre > 0].sum()
    return np.asarray(caps / min(1.0, allowed)) if allowed > 0 else centre


def radius_for_upsampling(centre: Vector, factor: float) -> float:
    """rho at which the ball allows multiplying the share of the smallest group by at most `factor`.

    rho = (R - 1)^2 p_min / (2 (1 - p_min)): |q_i - p_i| <= sqrt(2 rho p_i (1 - p_i)), solved for q_min = R p_min.
    """
    most = number(factor, "max_upsample", 1)
    rarest = float(centre[centre > 0].min())
    return (most - 1) ** 2 * rarest / (2 * (1 - rarest)) if rarest < 1 else 0.0
