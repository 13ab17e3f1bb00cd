"""Exact solutions behind the uncertainty sets: functions on clean arrays, no checks, NumPy only.

Nearly every answer here is a straight line in v, clipped: q_i = clip(c_i (x_i - t), lower_i, upper_i). What is left to
find is one or two scalars, and those follow in closed form once it is known which coordinates are clipped. So we look
for that pattern and finish with the closed form: answers are exact to rounding, whatever the scale of the input.
Derivations: docs/mathematics.md, whose section numbers are cited below.
"""

from __future__ import annotations

import math
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


def dot(a: Vector, b: Vector) -> float:
    """sum a b. Unlike `a @ b`, whose last bits depend on the kernel that a BLAS library chooses, it is the same
    everywhere, and so are the mixtures.
    """
    return float((a * b).sum())


def scaled(v: Vector) -> Vector:
    """v, divided by a power of two: values in [-1, 1], differences and ties kept exact, no overflow for any finite v.

    Best responses do not change under v -> a v with a > 0.
    """
    size = max(float(v.max()), -float(v.min()))
    u: Vector = np.ldexp(v, -np.frexp(size)[1])
    return u


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
    three to ten on ordinary data; their number grows with the logarithm of the spread of p and v, not with m.
    """
    if rho == 0 or v.min() == v.max():  # nothing may move, or nothing is gained by moving
        return p.copy()
    top_mass = p[v == v.max()].sum()
    if 2 * rho * top_mass >= 1 - top_mass:  # the ball reaches the vertex: the radius does not bind
        return share_of_top(p, v)
    weight, active, u = p, p.size, scaled(v)  # weight: p on A and 0 elsewhere; active: how many are in A
    mass, dropped = p.sum(), 0.0
    while True:
        slack = 2 * rho * mass - dropped  # (1 + 2 rho) p(A) - 1, but with all its digits when rho is tiny
        centred, spread = centre(u, weight, mass)
        if spread < 1e-100:  # squares of tiny gaps vanish: look closer, at A alone
            u = np.where(weight > 0, scaled(np.where(weight > 0, u, 0.0)), -2.0)  # the others stay below all of A
            centred, spread = centre(u, weight, mass)
        if slack <= 0 or spread == 0:  # only by rounding: the ball touches this face in one point, q = p / p(A)
            return np.asarray(weight / mass)
        reach = spread / math.sqrt(slack * mass)  # mean - eta
        kept = centred > -reach
        left = int(np.count_nonzero(kept))
        if left >= active:  # all of A, since what was dropped lies below it
            q: Vector = weight * np.maximum(1 + centred / reach, 0.0)  # in units of the mean: p of 1e-300 keep digits
            q /= q.sum()
            return q
        rest = weight * kept
        dropped += (weight - rest).sum()
        weight, mass, active = rest, rest.sum(), left


def centre(u: Vector, weight: Vector, mass: float) -> tuple[Vector, float]:
    """u minus its weighted mean, and the root of the weighted sum of its squares, for |u| <= 1 where weight > 0."""
    centred = u - dot(weight, u) / mass
    squares = dot(weight, centred * centred)
    if squares < 1e-4 * mass:  # nearly all mass sits close together: measured from a value in there, no digits are lost
        centred = u - u[np.abs(centred).argmin()]
        centred -= dot(weight, centred) / mass
        squares = dot(weight, centred * centred)
    return centred, math.sqrt(squares)


def kl_best_response(p: Vector, v: Vector, rho: float) -> Vector:
    """argmax <q, v> over the simplex with KL(q || p) <= rho, for p > 0: q_i ~ p_i exp(beta v_i) (section 4)."""
    if rho == 0 or v.min() == v.max():
        return p.copy()
    if rho >= -np.log(p[v == v.max()].sum()):
        return share_of_top(p, v)
    u = scaled(v)
    u = scaled(u - u.max())
    centred, spread = centre(u, p, 1.0)
    log_p = np.log(p)

    def tilt(beta: float) -> tuple[float, float, Vector]:
        shift = np.max(log_p + beta * u)  # the largest weight becomes 1, so that small ones do not vanish
        weight = p * np.exp(beta * u - shift)
        z = weight.sum()
        q = weight / z
        if beta < 1:  # a small radius: around the mean, log Z keeps its digits
            x, log_z = centred, np.log1p(dot(p, np.expm1(beta * centred)))
        else:
            x, log_z = u, np.log(z) + shift
        pull = np.sqrt(q) * beta * (x - dot(q, x))
        return float(beta * dot(q, x) - log_z), dot(pull, pull), q

    return increasing_root(tilt, rho, start=float(np.sqrt(2 * rho)) / spread)


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
    q[tied] = share(p[tied], np.zeros(int(tied.sum())), lower[tied], upper[tied], total=1 - q.sum())[0]
    return q


def boxed_chi_square_best_response(p: Vector, v: Vector, rho: float, lower: Vector, upper: Vector) -> Vector:
    """argmax <q, v> over the simplex with lower <= q <= upper and chi-square(q, p) <= rho, for p > 0 (section 2.5).

    q_i = clip(p_i (s v_i - t), lower_i, upper_i): the slope s >= 0 spends the radius, the level t makes the sum 1. As
    long as the same coordinates are clipped the divergence is a straight line in s^2, so Newton steps on s^2 are exact.
    """
    corner = greedy_fill(p, v, lower, upper)
    if chi_square_divergence(corner, p) <= rho:
        return corner
    nearest = nearest_to_centre(p, lower, upper)
    if chi_square_divergence(nearest, p) >= rho:
        return nearest
    u = scaled(v)

    def tilt(slope: float) -> tuple[float, float, Vector]:
        q, inside = share(p, u, lower, upper, slope)
        spread = slope * centre(u[inside], p[inside], p[inside].sum())[1] if inside.any() else 0.0
        return chi_square_divergence(q, p), spread * spread, q

    return increasing_root(tilt, rho, start=float(np.sqrt(2 * rho)) / max(centre(u, p, 1.0)[1], 1e-150))


def nearest_to_centre(p: Vector, lower: Vector, upper: Vector) -> Vector:
    """The mixture with lower <= q <= upper whose chi-square divergence from p is smallest: p, clipped and levelled."""
    return share(p, np.zeros_like(p), lower, upper)[0]


# ------------------------------------------------------------------------------------------------- projections


def boxed_projection(v: Vector, lower: Vector, upper: Vector) -> Vector:
    """The point nearest to v (Euclidean) in the simplex with lower <= q <= upper."""
    return share(np.full_like(v, 2.0), v / 2, lower, upper)[0]  # in halves: differences of huge values do not overflow


def chi_square_projection(p: Vector, v: Vector, rho: float, lower: Vector, upper: Vector) -> Vector:
    """The point nearest to v in the simplex with lower <= q <= upper and chi-square(q, p) <= rho, p > 0 (section 5).

    q_i = clip(w_i (v_i - eta), lower_i, upper_i) with w_i = p_i / (p_i + lambda); eta makes the sum 1 and is exact for
    each lambda; the multiplier lambda >= 0 is the root of a decreasing function.
    """
    q = boxed_projection(v, lower, upper)
    if chi_square_divergence(q, p) <= rho:
        return q
    nearest = nearest_to_centre(p, lower, upper)
    if chi_square_divergence(nearest, p) >= rho:
        return nearest
    x = v / 2

    def relax(ease: float) -> tuple[float, float, Vector]:  # ease = 1 / lambda, so that the divergence increases
        slope = min(ease, 1.0)
        c = 2 * max(ease, 1.0) * p / (ease * p + 1)  # 2 w / slope: it neither vanishes nor overflows
        q, inside = share(c, x, lower, upper, slope)
        if not inside.any():
            return chi_square_divergence(q, p), 0.0, q
        # d q / d log ease on the moving coordinates; the level moves too, so that the sum stays 1
        hold, r, base, y = c[inside], q[inside], p[inside], x[inside]
        push = hold * slope * (y - y.max()) - r * (ease * base / (ease * base + 1))
        move = push - hold * (push.sum() / hold.sum())
        return chi_square_divergence(q, p), float(np.sum((r / base - 1) * move)), q

    size = float(np.abs(v).max()) or 1.0  # of v, and `spread` of v / size: for small ease, q = p (1 + ease (v - mean))
    spread = max(centre(v / size, p, 1.0)[1], 1e-150)
    return increasing_root(relax, rho, start=min(max(float(np.sqrt(2 * rho)) / spread / size, 1e-300), 1e300))


# ------------------------------------------------------------------------------------------------- shared parts


def share(
    c: Vector, x: Vector, lower: Vector, upper: Vector, slope: float = 1.0, total: float = 1.0
) -> tuple[Vector, Mask]:
    """q_i = clip(c_i (slope x_i - t), lower_i, upper_i), t such that sum q = total; and which i are not clipped."""
    y = slope * x
    q, inside, level = level_out(c, y, lower, upper, total)
    for _ in range(3):
        if abs(level) <= 16 / c.max() or not np.isfinite(level):
            break
        # The level is so large that c (y - level) has lost digits: measure x from its value next to the level.
        y = slope * (x - x[np.abs(y - level).argmin()])
        q, inside, level = level_out(c, y, lower, upper, total)
    return q, inside


def level_out(c: Vector, y: Vector, lower: Vector, upper: Vector, total: float) -> tuple[Vector, Mask, float]:
    """q_i = clip(c_i (y_i - t), lower_i, upper_i), with t such that sum q = total; which i are not clipped; and t.

    The sum falls with t, in straight pieces between the 2m values of t at which a coordinate starts or stops being
    clipped. Find the piece by bisection over those sorted values, then solve its linear equation.
    """
    reached = total - 1e-15  # what is missing by rounding only must not be piled onto a group of share 1e-300
    with np.errstate(over="ignore"):  # infinity is as good as any number beyond a cap
        leaves_top, hits_floor = y - upper / c, y - lower / c  # inside for leaves_top < t < hits_floor
        edges = np.sort(np.concatenate([leaves_top[leaves_top > -np.inf], hits_floor]))
        first, last = 0, edges.size  # the sum is reached at edges[:first], but not at edges[last:]
        while first < last:
            middle = (first + last) // 2
            if np.clip(c * (y - edges[middle]), lower, upper).sum() >= reached:
                first = middle + 1
            else:
                last = middle
    left = float(edges[first - 1]) if first > 0 else -np.inf
    right = float(edges[first]) if first < edges.size else np.inf
    inside = (leaves_top <= left) & (hits_floor >= right)
    q = np.where(hits_floor <= left, lower, upper)
    if not inside.any():  # then the sum is total, unless edges that differ were rounded to the same number
        return q, inside, left if q.sum() < total else right
    free, above = c[inside], y[inside] - right
    step = (total - q[~inside].sum() - dot(free, above)) / free.sum()  # right - t: in [0, right - left], if not rounded
    step = min(max(float(step), 0.0), right - left)
    q[inside] = np.clip(free * (above + step), lower[inside], upper[inside])
    return q, inside, right - step


def increasing_root(f: Callable[[float], tuple[float, float, Vector]], target: float, start: float) -> Vector:
    """The vector that f returns where its first value, increasing on x > 0, meets `target`.

    f(x) gives (value, d value / d log x, vector). Newton steps on x^2 (our divergences grow like x^2 for small x, and
    some of them in straight pieces of x^2 everywhere), inside a bracket that is halved where Newton makes no progress.
    """
    low, high, x, miss = 0.0, np.inf, start, np.inf
    for _ in range(400):  # ten or so; the bound only guards against a cycle of rounding errors
        value, slope, vector = f(x)
        if value <= target:
            low = x
        else:
            high = x
        growth = 1 + 2 * (target - value) / slope if 0 < slope < np.inf else 0.0
        step = x * float(np.sqrt(growth)) if 0 < growth < np.inf else 0.0
        last_miss, miss = miss, abs(value - target) / target
        if miss <= 4e-16 or (miss <= 1e-12 and abs(step - x) <= 1e-15 * x) or high <= low * (1 + 4e-16) or x > 1e306:
            break
        if not low < step < high or miss > max(last_miss / 2, 1e-12):
            step = 16 * x if high == np.inf else x / 16 if low == 0 else float(np.sqrt(low) * np.sqrt(high))
        x = step
    return vector


def scatter(values: Vector, where: NDArray[np.intp], size: int) -> Vector:
    """A vector of zeros with `values` at positions `where`."""
    full = np.zeros(size)
    full[where] = values
    return full
