"""Uncertainty sets: which mixtures of the groups may the adversary choose?

Group DRO minimises over the model, and maximises over mixtures q in a set U, the loss <q, v>, where v_i is the loss of
group i minus its baseline. A set answers four questions:

    best_response(v)   the q in U with the largest <q, v>: what the adversary plays against these losses
    worst_case(v)      that largest value
    divergence(q)      how far q is from the centre p, in the measure that defines the set
    contains(q)        is q in U?

and, where the answer stays simple, `project(v)`: the point of U nearest to v. From the smallest set to the largest:

    Singleton(p)   ChiSquareBall(p, rho), KLBall(p, rho): rho upwards   CVaR(p, alpha): alpha downwards   Simplex(n)
    plain training (ERM)               distributionally robust training, in between                        Group DRO

Answers are exact to rounding, never NaN, sum to 1 within 1e-12 and lie in the set; a group with p_i = 0 gets q_i = 0.
Where several q are optimal (equal losses, ties) the one nearest to p is returned: q in proportion to p within the tie.

How the answers are found: solvers.py. Why they are right: docs/mathematics.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenglot.robust import solvers
from evenglot.robust.validate import OptionError, Vector, distribution, number, vector

TOLERANCE = 1e-9  # of `contains`: for rounding errors, not a widening of the set
ROUNDING = 1e-12  # how far caps may stay below a sum of 1: answers sum to 1 this closely


class UncertaintySet:
    """What all sets share: a centre p, and answers that are found on the groups p admits (p_i > 0)."""

    def __init__(self, p: ArrayLike) -> None:
        self.p = distribution(p)
        self._support = None if self.p.min() > 0 else np.flatnonzero(self.p)
        self._p = self._admitted(self.p)

    def best_response(self, v: ArrayLike) -> Vector:
        """The mixture q in this set with the largest <q, v>."""
        return self._everywhere(self._respond(self._admitted(vector(v, "v", self.p.size))))

    def worst_case(self, v: ArrayLike) -> float:
        """The largest <q, v> over the q in this set."""
        return float(self.best_response(v) @ vector(v, "v", self.p.size))

    def divergence(self, q: ArrayLike) -> float:
        """How far q is from the centre, in the measure that defines this set."""
        return self._diverge(vector(q, "q", self.p.size))

    def contains(self, q: ArrayLike) -> bool:
        """Is q a distribution over the groups that lies in this set?"""
        mixture = vector(q, "q", self.p.size)
        if mixture.min() < -TOLERANCE or abs(mixture.sum() - 1) > TOLERANCE or mixture[self.p == 0].any():
            return False
        return self._admits(self._admitted(mixture))

    def _respond(self, v: Vector) -> Vector:
        raise NotImplementedError

    def _diverge(self, q: Vector) -> float:
        raise NotImplementedError

    def _admits(self, q: Vector) -> bool:
        raise NotImplementedError

    def _admitted(self, values: Vector) -> Vector:
        return values if self._support is None else values[self._support]

    def _everywhere(self, q: Vector) -> Vector:
        return q if self._support is None else solvers.scatter(q, self._support, self.p.size)


class Singleton(UncertaintySet):
    """{p}: no choice at all; proportional training (ERM). Divergence: total variation."""

    def project(self, v: ArrayLike) -> Vector:
        """p, the only point in the set."""
        vector(v, "v", self.p.size)
        return self.p.copy()

    def _respond(self, v: Vector) -> Vector:
        return self._p.copy()

    def _diverge(self, q: Vector) -> float:
        return float(0.5 * np.abs(q - self.p).sum())

    def _admits(self, q: Vector) -> bool:
        return bool(np.abs(q - self._p).max() <= TOLERANCE)


class Simplex(UncertaintySet):
    """All mixtures of n groups. The adversary picks the worst group: Group DRO. Every mixture has divergence 0."""

    def __init__(self, n: int) -> None:
        if number(n, "n", 1) != int(n):
            raise OptionError("n", f"expected a whole number of groups, got {n!r}")
        super().__init__(np.ones(int(n)))

    def project(self, v: ArrayLike) -> Vector:
        """The mixture nearest to v in Euclidean distance."""
        values = vector(v, "v", self.p.size)
        return solvers.boxed_projection(values, np.zeros_like(values), np.ones_like(values))

    def _respond(self, v: Vector) -> Vector:
        return solvers.share_of_top(self._p, v)

    def _diverge(self, q: Vector) -> float:
        return 0.0

    def _admits(self, q: Vector) -> bool:
        return True


class KLBall(UncertaintySet):
    """{q : sum q log(q/p) <= rho}, rho in nats. The best response is an exponential tilt of p."""

    def __init__(self, p: ArrayLike, rho: float) -> None:
        super().__init__(p)
        self.rho = number(rho, "rho", 0)

    def _respond(self, v: Vector) -> Vector:
        return solvers.kl_best_response(self._p, v, self.rho)

    def _diverge(self, q: Vector) -> float:
        return solvers.kl_divergence(q, self.p)

    def _admits(self, q: Vector) -> bool:
        return solvers.kl_divergence(q, self._p) <= self.rho + TOLERANCE * (1 + self.rho)


class BoundedSet(UncertaintySet):
    """A set whose mixtures also respect lower_i <= q_i <= upper_i: a floor and a cap for each group.

    `floor` is relative to the centre, q_i >= floor p_i; `upper` holds absolute caps on q, one a group. Where the two
    clash the cap wins, so that a group whose data are used up can be closed.
    """

    def __init__(self, p: ArrayLike, floor: float, upper: ArrayLike | None) -> None:
        super().__init__(p)
        self.floor = number(floor, "floor", 0, 1)
        self.upper = np.ones_like(self.p) if upper is None else np.clip(vector(upper, "upper", self.p.size), 0, 1)
        self._upper = self._admitted(self.upper)
        if self._upper.sum() < 1 - ROUNDING:
            raise OptionError("upper", f"the caps add up to {self._upper.sum():.6g}; a whole mixture needs 1 or more")
        self._lower = np.minimum(self.floor * self._p, self._upper)

    def _admits(self, q: Vector) -> bool:
        return bool((q >= self._lower - TOLERANCE).all() and (q <= self._upper + TOLERANCE).all())


class ChiSquareBall(BoundedSet):
    """{q : 1/2 sum p (q/p - 1)^2 <= rho}: the set of chi-IBR. The 1/2 belongs to the definition.

    How far can it move a group? |q_i - p_i| <= sqrt(2 rho p_i (1 - p_i)). The best response is
        q_i = p_i (v_i - eta)_+ / lambda:
    a group's share grows in a straight line with its loss, and groups whose loss is below eta get nothing. With a
    floor f the problem shrinks onto itself: q = f p + (1 - f) r, where r answers the ball of radius rho / (1 - f)^2.
    """

    def __init__(self, p: ArrayLike, rho: float, floor: float = 0.0, upper: ArrayLike | None = None) -> None:
        super().__init__(p, floor, upper)
        self.rho = number(rho, "rho", 0)
        self._capped = upper is not None
        if self._capped and self.least_radius > self.rho + TOLERANCE:
            raise OptionError(
                "rho",
                f"no mixture under the caps in `upper` is within {self.rho:g} of p; "
                f"the nearest one is at {self.least_radius:.6g}",
            )

    @property
    def least_radius(self) -> float:
        """The smallest rho at which the caps leave any mixture to choose; 0 without caps."""
        nearest = solvers.nearest_to_centre(self._p, self._lower, self._upper)
        return solvers.chi_square_divergence(nearest, self._p)

    def project(self, v: ArrayLike) -> Vector:
        """The point of the ball nearest to v in Euclidean distance."""
        values = self._admitted(vector(v, "v", self.p.size))
        return self._everywhere(solvers.chi_square_projection(self._p, values, self.rho, self._lower, self._upper))

    def _respond(self, v: Vector) -> Vector:
        if self._capped:
            return solvers.boxed_chi_square_best_response(self._p, v, self.rho, self._lower, self._upper)
        free = 1 - self.floor
        if free == 0:
            return self._p.copy()
        q = solvers.chi_square_best_response(self._p, v, self.rho / free**2)
        return self._lower + free * q if self.floor else q

    def _diverge(self, q: Vector) -> float:
        return solvers.chi_square_divergence(q, self.p)

    def _admits(self, q: Vector) -> bool:
        return super()._admits(q) and solvers.chi_square_divergence(q, self._p) <= self.rho + TOLERANCE * (1 + self.rho)


class CVaR(BoundedSet):
    """{q : q_i <= p_i / alpha}: the worst share alpha of the data. alpha = 1 is {p}, alpha = 0 the whole simplex.

    Divergence: log max q_i / p_i, which is at most log 1/alpha in the set.
    """

    def __init__(self, p: ArrayLike, alpha: float, floor: float = 0.0, upper: ArrayLike | None = None) -> None:
        super().__init__(p, floor, upper)
        self.alpha = number(alpha, "alpha", 0, 1)
        if self.alpha > 0:
            with np.errstate(over="ignore"):
                self._upper = np.minimum(self._upper, self._p / self.alpha)
        if self._upper.sum() < 1 - ROUNDING:
            room = self._upper.sum()
            raise OptionError("upper", f"with alpha = {self.alpha:g} the caps add up to {room:.6g}; a mixture needs 1")
        self._lower = np.minimum(self._lower, self._upper)

    def project(self, v: ArrayLike) -> Vector:
        """The point of the set nearest to v in Euclidean distance."""
        values = self._admitted(vector(v, "v", self.p.size))
        return self._everywhere(solvers.boxed_projection(values, self._lower, self._upper))

    def _respond(self, v: Vector) -> Vector:
        return solvers.greedy_fill(self._p, v, self._lower, self._upper)

    def _diverge(self, q: Vector) -> float:
        used = q > 0
        with np.errstate(divide="ignore"):
            return float(np.log(np.max(q[used] / self.p[used])))
