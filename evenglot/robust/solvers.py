"""Exact solutions behind the uncertainty sets: functions on clean arrays, no checks, NumPy only.

Nearly every answer here is a straight line in v, clipped: q_i = clip(c_i (x_i - t), lower_i, upper_i). What is left to
find is one or two scalars, and those follow in closed form once it is known which coordinates are clipped. So we look
for that pattern and finish with the closed form: answers are exact to rounding, whatever the scale of the input.
Derivations: docs/mathematics.md, whose section numbers are cited below.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evenglot.robust.validate import Vector

Mask = NDArray[np.bool_]


def chi_square_divergence(q: Vector, p: Vector) -> float:
    """1/2 sum p (q/p - 1)^2; infinite where q puts mass on a group that p leaves out."""
    support = p > 0
    if (q[~support] != 0).any():
        return float("inf")
    difference = q[support] - p[support]
    return float(0.5 * np.sum(difference / p[support] * difference))


def kl_divergence(q: Vector, p: Vector) -> float:
    """sum q log(q/p) in nats, with 0 log 0 = 0; infinite where q puts mass on a group that p leaves out."""
    used = q > 0
    if (p[used] == 0).any():
        return float("inf")
    return float(np.sum(q[used] * np.log(q[used] / p[used])))


def below_top(v: Vector) -> Vector:
    """v - max(v), divided by the spread: values in [-1, 0], ties kept exact, no overflow for any finite v.

    Best responses do not change under v -> a v + b with a > 0. Subtracting the maximum is what keeps values 1e-12 apart
    distinguishable: near the top that subtraction is exact.
    """
    top = v.max()
    with np.errstate(over="ignore"):
        below: Vector = v - top
    if below.min() == -np.inf:
        below = v / 4 - top / 4
    spread = -below.min()
    if spread > 0:
        below /= spread
    return below


def share_of_top(p: Vector, v: Vector) -> Vector:
    """All mass on the groups with the largest v, in proportion to p: the answer when the radius is no obstacle."""
    q: Vector = np.where(v == v.max(), p, 0.0)
    q /= q.sum()
    return q


# --------------------------------------------------------------------------------------------- best responses


def chi_square_best_response(p: Vector, v: Vector, rho: float) -> Vector:
    """argmax <q, v> over the simplex with 1/2 sum p (q/p - 1)^2 <= rho, for p > 0 (section 2).

    The optimum is q_i = p_i (v_i - eta)_+ / lambda. If A = {v > eta} were known, eta would follow in closed form:
        eta_A = mean_A(v) - sqrt(var_A(v) / ((1 + 2 rho) p(A) - 1)).
    Start with A = everything and drop what lies at or below eta_A until nothing does. While A holds the support of the
    answer, eta_A <= eta; so nothing is dropped wrongly, and the last A is that support. A round costs O(m). There are
    three to six on ordinary data; their number grows with the logarithm of the spread of p and v, not with m.
    """
    u = below_top(v)
    widen = 1 + 2 * rho
    if rho == 0 or u.min() == 0:  # nothing may move, or nothing is gained by moving
        return p.copy()
    if widen * p[u == 0].sum() >= 1:  # the ball reaches the vertex: the radius does not bind
        return share_of_top(p, v)
    weight, active = p, None
    while True:
        mass = weight.sum()
        mean = weight @ u / mass
        centred = u - mean
        slack = widen * mass - 1
        if slack <= 0:  # only by rounding: the ball touches this face in one point, q = p / p(A)
            break
        eta = mean - np.sqrt(weight @ (centred * centred) / mass / slack)
        kept = u > eta
        if kept.all():
            weight = weight * (u - eta)
            break
        active = np.flatnonzero(kept) if active is None else active[kept]
        weight, u = weight[kept], u[kept]
        u = u / -u.min()  # again in [-1, 0], so that squares of tiny gaps do not vanish
    q = weight / weight.sum()
    return q if active is None else scatter(q, active, p.size)


def kl_best_response(p: Vector, v: Vector, rho: float) -> Vector:
    """argmax <q, v> over the simplex with KL(q || p) <= rho, for p > 0: q_i ~ p_i exp(beta v_i) (section 4)."""
    u = below_top(v)
    if rho == 0 or u.min() == 0:
        return p.copy()
    if rho >= -np.log(p[u == 0].sum()):
        return share_of_top(p, v)
    centred = u - p @ u

    def tilt(beta: float) -> tuple[float, float, Vector]:
        q = p * np.exp(beta * u)
        q /= q.sum()
        if beta < 1:  # a small radius: around the mean, log Z keeps its digits
            mean, log_z = q @ centred, np.log1p(p @ np.expm1(beta * centred))
        else:
            mean, log_z = q @ u, np.log(p @ np.exp(beta * u))
        return float(beta * mean - log_z), float(beta * (q @ (centred - q @ centred) ** 2)), q

    return increasing_root(tilt, rho, start=float(np.sqrt(2 * rho / (p @ centred**2))))


def greedy_fill(p: Vector, v: Vector, lower: Vector, upper: Vector) -> Vector:
    """argmax <q, v> over the simplex with lower <= q <= upper: fill the groups up, largest v first (section 3).

    Where the mass runs out inside a block of equal v, the block shares what is left in proportion to p.
    """
    order = np.argsort(-v, kind="stable")
    room = np.cumsum((upper - lower)[order])
    left = 1 - lower.sum()
    cut = order[min(int(np.searchsorted(room, left)), v.size - 1)]
    full, tied = v > v[cut], v == v[cut]
    q = np.where(full, upper, lower)
    q[tied] = 0
    q[tied] = share(p[tied], np.zeros(int(tied.sum())), lower[tied], upper[tied], 1 - q.sum())[0]
    return q


def boxed_chi_square_best_response(p: Vector, v: Vector, rho: float, lower: Vector, upper: Vector) -> Vector:
    """argmax <q, v> over the simplex with lower <= q <= upper and chi-square(q, p) <= rho, for p > 0 (section 2.4).

    q_i = clip(p_i (s v_i - t), lower_i, upper_i): the slope s >= 0 spends the radius, the level t makes the sum 1. The
    divergence grows with s. For a given pattern of clipped coordinates the s that spends the radius is a square root;
    we search for the s whose pattern gives it back.
    """
    corner = greedy_fill(p, v, lower, upper)
    if chi_square_divergence(corner, p) <= rho:
        return corner
    nearest = nearest_to_centre(p, lower, upper)
    if chi_square_divergence(nearest, p) >= rho:
        return nearest
    u = below_top(v)
    low, high = 0.0, np.inf
    slope = 1.0
    for _ in range(2000):  # some ten rounds on ordinary data; the bound only guards against a cycle of rounding errors
        q, inside = share(p, slope * u, lower, upper)
        if chi_square_divergence(q, p) <= rho:
            low = slope
        else:
            high = slope
        exact = _slope_for_pattern(p, u, rho, q, inside)
        if exact is not None and low <= exact <= high:
            answer, pattern = share(p, exact * u, lower, upper)
            if (pattern == inside).all():
                return answer
        if high <= low * (1 + 4e-16):
            break
        if exact is None or not low < exact < high:
            exact = 2 * slope if high == np.inf else slope / 16 if low == 0 else float(np.sqrt(low) * np.sqrt(high))
        slope = exact
    return share(p, low * u, lower, upper)[0]


def _slope_for_pattern(p: Vector, u: Vector, rho: float, q: Vector, inside: Mask) -> float | None:
    """The slope at which chi-square = rho if exactly the coordinates `inside` move; None if there is none."""
    c, x = p[inside], u[inside]
    if c.size == 0:
        return None
    mass, share_left = c.sum(), 1 - q[~inside].sum()
    mean = c @ x / mass
    spread = c @ (x - mean) ** 2
    second = 1 + 2 * rho - np.sum(q[~inside] ** 2 / p[~inside]) - share_left**2 / mass
    return float(np.sqrt(second / spread)) if second > 0 and spread > 0 else None


def nearest_to_centre(p: Vector, lower: Vector, upper: Vector) -> Vector:
    """The mixture with lower <= q <= upper whose chi-square divergence from p is smallest: p, clipped and levelled."""
    return share(p, np.zeros_like(p), lower, upper)[0]


# ------------------------------------------------------------------------------------------------- projections


def boxed_projection(v: Vector, lower: Vector, upper: Vector) -> Vector:
    """The point nearest to v (Euclidean) in the simplex with lower <= q <= upper."""
    return share(np.ones_like(v), v - v.max(), lower, upper)[0]


def chi_square_projection(p: Vector, v: Vector, rho: float, lower: Vector, upper: Vector) -> Vector:
    """The point nearest to v in the simplex with lower <= q <= upper and chi-square(q, p) <= rho, p > 0 (section 5).

    q_i = clip(w_i (v_i - eta), lower_i, upper_i) with w_i = p_i / (p_i + lambda); eta makes the sum 1 and is exact for
    each lambda; the multiplier lambda >= 0 is the root of a decreasing function.
    """
    x = v - v.max()
    q = boxed_projection(x, lower, upper)
    if chi_square_divergence(q, p) <= rho:
        return q
    if rho == 0:
        return p.copy()

    def relax(ease: float) -> tuple[float, float, Vector]:  # ease = 1 / lambda, so that the divergence increases
        weight = ease * p / (ease * p + 1)
        q, inside = share(weight, x, lower, upper)
        # d q / d ease on the moving coordinates; eta moves too, so that the sum stays 1
        push = q / (ease * (ease * p + 1)) * inside
        hold = weight * inside
        move = push - hold * (push.sum() / hold.sum()) if hold.any() else push
        return chi_square_divergence(q, p), float(np.sum((q / p - 1) * move)), q

    return increasing_root(relax, rho, start=1.0)


# ------------------------------------------------------------------------------------------------- shared parts


def share(c: Vector, x: Vector, lower: Vector, upper: Vector, total: float = 1.0) -> tuple[Vector, Mask]:
    """q_i = clip(c_i (x_i - t), lower_i, upper_i), the level t such that sum q = total; and which i are not clipped.

    The sum falls with t, in straight pieces between the 2m values of t at which a coordinate starts or stops being
    clipped. Find the piece by bisection over those sorted values, then solve its linear equation.
    """
    leaves_top, hits_floor = x - upper / c, x - lower / c  # inside for leaves_top < t < hits_floor
    edges = np.sort(np.concatenate([leaves_top[leaves_top > -np.inf], hits_floor]))
    first, last = 0, edges.size  # the sum is >= total at edges[:first] and < total at edges[last:]
    while first < last:
        middle = (first + last) // 2
        if np.clip(c * (x - edges[middle]), lower, upper).sum() >= total:
            first = middle + 1
        else:
            last = middle
    left = edges[first - 1] if first > 0 else -np.inf
    right = edges[first] if first < edges.size else np.inf
    inside = (leaves_top <= left) & (hits_floor >= right)
    q = np.where(hits_floor <= left, lower, upper)
    if inside.any():
        free = c[inside]
        level = (free @ x[inside] + q[~inside].sum() - total) / free.sum()
        q[inside] = np.clip(free * (x[inside] - level), lower[inside], upper[inside])
    return q, inside


def increasing_root(f: Callable[[float], tuple[float, float, Vector]], target: float, start: float) -> Vector:
    """The vector that f returns where its first value, increasing on x > 0, meets `target`.

    f(x) gives (value, slope, vector). Newton steps on log value over log x (a straight line for small x, where our
    divergences grow like x^2), inside a bracket that makes every step safe.
    """
    low, high = 0.0, np.inf
    x = start
    for _ in range(400):  # ten or so; the bound only guards against a cycle of rounding errors
        value, slope, vector = f(x)
        if value <= target:
            low = x
        else:
            high = x
        step = 0.0
        if value > 0 and slope > 0:
            step = x * float(np.exp(np.clip(np.log(target / value) * value / (x * slope), -50, 50)))
        if abs(step - x) <= 1e-15 * x or high <= low * (1 + 4e-16):
            break
        if not low < step < high:
            step = 16 * x if high == np.inf else x / 16 if low == 0 else float(np.sqrt(low) * np.sqrt(high))
        x = step
    return vector


def scatter(values: Vector, where: NDArray[np.intp], size: int) -> Vector:
    """A vector of zeros with `values` at positions `where`."""
    full = np.zeros(size)
    full[where] = values
    return full
