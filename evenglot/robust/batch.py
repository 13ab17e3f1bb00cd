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
    slope = np.full_like(values, 1 / (penalty * values.size))
    return solvers.share(slope, values - values.max(), np.zeros_like(values), np.ones_like(values))[0]


def cvar_weights(losses: ArrayLike, alpha: float, penalty: float = 0.0) -> Vector:
    """Maximise q @ losses - penalty KL(q, 1/m) with every q_j <= 1 / (alpha m): the mean of the worst share alpha."""
    values = vector(losses, "losses")
    worst_share = CVaR(np.ones_like(values), alpha)
    if number(penalty, "penalty", 0) == 0:
        return worst_share.best_response(values)
    return _capped_softmax(values / penalty, cap=min(1.0, 1 / (alpha * values.size)) if alpha > 0 else 1.0)


def _capped_softmax(x: Vector, cap: float) -> Vector:
    """q_j = min(exp(x_j - t), cap) with sum 1: the largest ones are capped; how many, the sorted tails tell."""
    order = np.argsort(-x, kind="stable")
    weight = np.exp(x[order] - x[order[0]])
    if weight.size * cap <= 1:
        return np.full_like(x, 1 / x.size)
    tail = np.cumsum(weight[::-1])[::-1]  # mass from j on; the smallest are added first, so nothing cancels
    left = 1 - cap * np.arange(x.size)  # what remains when the first j are capped
    capped = int(np.argmax((weight * left <= cap * tail) & (left > 0)))  # the first j that stays below its cap
    q = np.empty_like(x)
    q[order] = np.concatenate([np.full(capped, cap), weight[capped:] * (left[capped] / tail[capped])])
    return q
