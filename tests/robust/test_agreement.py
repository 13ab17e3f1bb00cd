"""Results agree with general-purpose solvers: CLARABEL through cvxpy, and HiGHS."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from evenglot.robust import ChiSquareBall, CVaR, KLBall, Simplex

M = 6
CLOSE = 1e-6  # accuracy of an interior-point solver


class Conic:
    """max <q, v>, or min |q - v|^2, over lower <= q <= upper with one divergence constraint; compiled once."""

    def __init__(self, kind: str, project: bool) -> None:
        self.q = cp.Variable(M)
        self.v, self.p, self.radius = cp.Parameter(M), cp.Parameter(M, pos=True), cp.Parameter(nonneg=True)
        self.root = cp.Parameter(M, pos=True)
        self.lower, self.upper = cp.Parameter(M, nonneg=True), cp.Parameter(M, nonneg=True)
        if kind == "kl":
            inside = cp.sum(cp.rel_entr(self.q, self.p)) <= self.radius
        else:  # sum q^2 / p <= 1 + 2 rho
            inside = cp.norm(cp.multiply(self.root, self.q)) <= self.radius
        goal = cp.Minimize(cp.sum_squares(self.q - self.v)) if project else cp.Maximize(self.v @ self.q)
        box = [self.lower <= self.q, self.q <= self.upper, cp.sum(self.q) == 1]
        self.kind, self.problem = kind, cp.Problem(goal, [inside, *box])

    def solve(self, p, v, rho, lower=0.0, upper=1.0):
        self.p.value, self.v.value, self.root.value = p, v, p**-0.5
        self.radius.value = rho if self.kind == "kl" else np.sqrt(1 + 2 * rho)
        self.lower.value, self.upper.value = np.broadcast_to(lower, M), np.broadcast_to(upper, M)
        self.problem.solve(solver=cp.CLARABEL)
        assert self.problem.status == cp.OPTIMAL
        return self.q.value


conic = cache(Conic)


def draw(seed):
    """(p, v, rho, floor, caps): caps that bind, but leave room in the ball."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(M, rng.choice([0.5, 1, 5]))) + 1e-3
    p /= p.sum()
    v = rng.normal(size=M) if seed % 2 else rng.integers(-2, 3, M).astype(float)
    rho = float(10 ** rng.uniform(-2, 0.7))
    floor = float(rng.choice([0, 0.2, 0.7]))
    upper = np.minimum(1, p * rng.choice([0.6, 1, 1.5, 3], M) + rng.choice([0, 0.05, 1], M))
    upper /= min(1, upper.sum())
    least = ChiSquareBall(p, 1e9, floor=floor, upper=upper).least_radius
    return p, v, max(rho, 1.2 * least), floor, upper


few = pytest.mark.parametrize("seed", range(25))
many = pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(1000, 2000, 100)])


def best_responses_agree(seed):
    p, v, rho, floor, upper = draw(seed)
    solver = conic("chi-square", project=False)
    for ball, lower, cap in (
        (ChiSquareBall(p, rho), 0.0, 1.0),
        (ChiSquareBall(p, rho, floor=floor), floor * p, 1.0),
        (ChiSquareBall(p, rho, floor=floor, upper=upper), np.minimum(floor * p, upper), upper),
    ):
        q = ball.best_response(v)
        assert ball.contains(q)
        assert q @ v == pytest.approx(solver.solve(p, v, rho, lower, cap) @ v, rel=0, abs=CLOSE)


def projections_agree(seed):
    p, v, rho, floor, upper = draw(seed)
    solver = conic("chi-square", project=True)
    for ball, lower, cap in (
        (ChiSquareBall(p, rho), 0.0, 1.0),
        (ChiSquareBall(p, rho, floor=floor, upper=upper), np.minimum(floor * p, upper), upper),
        (Simplex(M), 0.0, 1.0),
    ):
        q = ball.project(v / 3)
        radius = rho if isinstance(ball, ChiSquareBall) else 1e6
        expected = solver.solve(p, v / 3, radius, lower, cap)
        assert ball.contains(q)
        assert np.sum((q - v / 3) ** 2) == pytest.approx(np.sum((expected - v / 3) ** 2), rel=0, abs=CLOSE)
        assert q == pytest.approx(expected, rel=0, abs=1e-3)  # only sqrt(CLOSE): the objective is flat at its minimum


def kl_agrees(seed):
    p, v, rho, _, _ = draw(seed)
    ball = KLBall(p, rho)
    q = ball.best_response(v)
    assert ball.contains(q)
    assert q @ v == pytest.approx(conic("kl", project=False).solve(p, v, rho) @ v, rel=0, abs=CLOSE)


def cvar_agrees(seed):
    p, v, rho, floor, upper = draw(seed)
    alpha = 1 / (1 + 4 * rho)
    for cap in (np.ones(M), upper):
        room = np.minimum(cap, p / alpha)
        if room.sum() < 1:
            continue
        worst_share = CVaR(p, alpha, floor=floor, upper=cap)
        bounds = np.stack([np.minimum(floor * p, room), room], axis=1)
        expected = linprog(-v, A_eq=np.ones((1, M)), b_eq=[1], bounds=bounds, method="highs")
        q = worst_share.best_response(v)
        assert worst_share.contains(q)
        assert q @ v == pytest.approx(-expected.fun, rel=0, abs=1e-9)


AGREEMENTS = [best_responses_agree, projections_agree, kl_agrees, cvar_agrees]
every_agreement = pytest.mark.parametrize("agreement", AGREEMENTS, ids=lambda agreement: agreement.__name__)


@every_agreement
@few
def test_general_solvers_find_the_same(agreement, seed):
    agreement(seed)


@pytest.mark.slow
@every_agreement
@many
def test_general_solvers_find_the_same_on_many_more_problems(agreement, seeds):
    for seed in seeds:
        agreement(seed)
