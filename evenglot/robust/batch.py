"""Weights of the examples inside one batch (FastDRO, Levy et al. 2020): robust over examples instead of groups.

Each function takes the losses of a batch and returns weights q that sum to 1; the reference is the uniform weight 1/m.
Train on sum_j q_j loss_j with q held constant: that has the gradient of the robust batch loss (envelope theorem).
These are loss weightings, not balancers: they hold no state and know no languages.

The value of a batch is q @ losses, less `penalty` times the divergence of q where there is a penalty. It estimates the
robust loss of the whole corpus from below and is consistent as the batch grows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenglot.robust import solvers
from evenglot.robust.sets import ChiSquareBall, CVaR
from evenglot.robust.validate import Vector, number, vector


def chi_square_weights(losses: ArrayLike, rho: float, penalty: float = 0.0) -> Vector:
    """Maximise q @ losses - penalty chi2(q, 1/m) over the ball chi2(q, 1/m) = 1/2 (1/m) sum (m q - 1)^2 <= rho."""
    values = vector(losses, "losses")
    ball = ChiSquareBall(np.ones_like(values), rho)
    if number(penalty, "penalty", 0) > 0:
        q = penalised_chi_square_weights(values, penalty)
        if ball.divergence(q) <= ball.rho:
            return q
    return ball.best_response(values)


def penalised_chi_square_weights(losses: ArrayLike, penalty: float) -> Vector:
    """Maximise q @ losses - penalty chi2(q, 1/m) over all q: q_j = (loss_j - eta)_+ / (penalty m)."""
    values = vector(losses, "losses")
    if number(penalty, "penalty", 0) == 0:
        return solvers.share_of_top(np.ones_like(values), values)
    m = values.size
    x = np.maximum(difference(values, values.max(), penalty), -2.0 * m)  # m below the top the weight is 0 anyway
    return solvers.share(np.full_like(x, 1 / m), x, np.zeros_like(x), np.ones_like(x))[0]


def cvar_weights(losses: ArrayLike, alpha: float, penalty: float = 0.0) -> Vector:
    """Maximise q @ losses - penalty KL(q, 1/m) with every q_j <= 1 / (alpha m): the mean of the worst share alpha."""
    values = vector(losses, "losses")
    worst_share = CVaR(np.ones_like(values), alpha)
    if number(penalty, "penalty", 0) == 0:
        return worst_share.best_response(values)
    return _capped_softmax(values, penalty, cap=min(1.0, 1 / (alpha * values.size)) if alpha > 0 else 1.0)


def _capped_softmax(losses: Vector, penalty: float, cap: float) -> Vector:
    """q_j = min(exp((loss_j - t) / penalty), cap) with sum 1. The largest are capped; bisection tells how many."""
    order = np.argsort(-losses, kind="stable")
    falling = losses[order]

    def tail(j: int) -> Vector:  # weights from the j-th largest on, in units of the j-th, so that they never all vanish
        return np.exp(difference(falling[j:], falling[j], penalty))

    first, last = 0, losses.size - 1
    while first < last:
        middle = (first + last) // 2
        if 1 - cap * middle <= cap * tail(middle).sum():  # it stays below its cap when all before it are capped
            last = middle
        else:
            first = middle + 1
    free = tail(first)
    q = np.empty_like(losses)
    q[order] = np.concatenate([np.full(first, cap), free * (max(0.0, 1 - cap * first) / free.sum())])
    return q


def difference(losses: Vector, reference: float, penalty: float) -> Vector:
    """(losses - reference) / penalty, at worst -inf. In halves, so that huge losses of both signs do not overflow."""
    with np.errstate(over="ignore"):
        x: Vector = 2 * ((losses / 2 - reference / 2) / penalty)
    return x
