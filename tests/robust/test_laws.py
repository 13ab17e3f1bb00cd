"""Laws that the answers of all sets obey, on problems that hypothesis makes up."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from evenglot.robust import ChiSquareBall, CVaR, KLBall, Simplex
from tests.robust.problems import (
    SHAPES,
    WITH_CENTRE_ORDER,
    WITH_PROJECTION,
    assert_answer,
    centres,
    plain_problems,
    problems,
    radii,
    share,
    values,
    vectors,
)

every_set = pytest.mark.parametrize("shape", SHAPES)
every_projection = pytest.mark.parametrize("shape", WITH_PROJECTION)
fractions = st.floats(0, 1)


def scale(v):
    return np.abs(v).max()


# ------------------------------------------------------------------------------------------------ all answers


@every_set
@given(problem=problems())
def test_answers_are_mixtures_in_the_set(shape, problem):
    p, v, rho = problem
    uncertainty = SHAPES[shape](p, rho)
    assert_answer(uncertainty, uncertainty.best_response(v))
    if shape in WITH_PROJECTION:
        assert_answer(uncertainty, uncertainty.project(v))


@every_set
@given(problem=plain_problems(), exponent=st.integers(-60, 60), shift=st.integers(-1000, 1000))
def test_scale_and_offset_of_the_values_do_not_matter(shape, problem, exponent, shift):
    p, v, rho = problem
    uncertainty = SHAPES[shape](p, rho)
    moved = (v + shift) * 2.0**exponent  # exact: multiples of 1/64
    assert uncertainty.best_response(moved) == pytest.approx(uncertainty.best_response(v), rel=0, abs=1e-13)


@every_set
@given(problem=problems(), other=st.data())
def test_no_mixture_in_the_set_is_worse_than_the_worst_case(shape, problem, other):
    p, v, rho = problem
    uncertainty = SHAPES[shape](p, rho)
    q = uncertainty.best_response(other.draw(values(p.size), label="other values"))
    assert q @ v <= uncertainty.worst_case(v) + 1e-12 * scale(v)


@pytest.mark.parametrize("shape", WITH_CENTRE_ORDER)
@given(problem=problems())
def test_a_group_with_a_larger_value_gets_a_larger_multiple_of_its_share(shape, problem):
    p, v, rho = problem
    uncertainty = SHAPES[shape](p, rho)
    used = uncertainty.p > 0
    order = np.argsort(v[used], kind="stable")
    multiple = (uncertainty.best_response(v)[used] / uncertainty.p[used])[order]
    assert (multiple[1:] >= multiple[:-1] * (1 - 1e-9) - 1e-12).all()
    tied = np.diff(v[used][order]) == 0
    assert multiple[1:][tied] == pytest.approx(multiple[:-1][tied], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "shape", [name for name in SHAPES if name not in ("singleton", "simplex") and "cvar" not in name]
)
@given(problem=problems(), other=radii, part=fractions)
def test_the_worst_case_grows_with_the_radius_ever_more_slowly(shape, problem, other, part):
    p, v, rho = problem
    low, high = min(rho, other), max(rho, other)
    middle = (1 - part) * low + part * high
    worst = {radius: SHAPES[shape](p, radius).worst_case(v) for radius in (low, middle, high)}
    tolerance = 1e-12 * scale(v)
    assert worst[low] <= worst[middle] + tolerance
    assert worst[middle] <= worst[high] + tolerance
    assert worst[middle] >= (1 - part) * worst[low] + part * worst[high] - tolerance


@given(p=st.integers(1, 8).flatmap(centres), v=st.data(), alphas=st.tuples(fractions, fractions))
def test_the_worst_case_of_cvar_falls_with_the_level(p, v, alphas):
    v = v.draw(values(p.size))
    assert CVaR(p, min(alphas)).worst_case(v) >= CVaR(p, max(alphas)).worst_case(v) - 1e-12 * scale(v)


# ------------------------------------------------------------------------------------------------ chi-square


@given(problem=problems(), floor=st.sampled_from([0.0, 0.2]), caps=st.booleans())
def test_the_radius_bounds_the_divergence_and_the_move_of_every_group(problem, floor, caps):
    p, v, rho = problem
    ball = ChiSquareBall(p, rho, floor=floor, upper=np.ones(p.size) if caps else None)
    others = np.array([np.delete(ball.p, i).sum() for i in range(p.size)])  # 1 - p loses digits where p is near 1
    for q in (ball.best_response(v), ball.project(v)):
        assert ball.divergence(q) <= rho * (1 + 1e-9) + 1e-15 * np.sqrt(rho) + 1e-30  # as close as rounded q can be
        assert (np.abs(q - ball.p) <= np.sqrt(2 * rho * ball.p * others) * (1 + 1e-9) + 1e-15).all()


@given(problem=problems(), floor=st.sampled_from([0.0, 0.2, 0.9]))
def test_caps_that_exclude_nothing_change_nothing(problem, floor):
    p, v, rho = problem
    free, capped = ChiSquareBall(p, rho, floor=floor), ChiSquareBall(p, rho, floor=floor, upper=np.ones(p.size))
    assert capped.least_radius <= 1e-30
    assert capped.best_response(v) == pytest.approx(free.best_response(v), rel=0, abs=1e-12)


@given(problem=problems(), floor=st.floats(0, 0.99))
def test_a_floor_is_a_mixture_with_the_centre(problem, floor):
    p, v, rho = problem
    free = ChiSquareBall(p, rho / (1 - floor) ** 2)
    expected = floor * free.p + (1 - floor) * free.best_response(v)
    assert ChiSquareBall(p, rho, floor=floor).best_response(v) == pytest.approx(expected, rel=0, abs=1e-12)


def chi_square_dual(p, v, rho, eta):
    return eta + np.sqrt((1 + 2 * rho) * (p @ np.maximum(v - eta, 0) ** 2))


@given(problem=plain_problems(), eta=st.floats(-20, 20))
def test_chi_square_worst_case_meets_its_dual(problem, eta):
    p, v, rho = problem
    ball = ChiSquareBall(p, rho)
    worst = ball.worst_case(v)
    assert worst <= chi_square_dual(ball.p, v, rho, eta) + 1e-12
    mean = ball.p @ v
    lowest = min(v.min(), mean - np.sqrt(ball.p @ (v - mean) ** 2 / (2 * rho))) - 1
    best = minimise(lambda eta: chi_square_dual(ball.p, v, rho, eta), lowest, v.max())
    assert worst == pytest.approx(best, rel=0, abs=1e-8)


def minimise(dual, low, high):
    """The least value of a convex function on [low, high], its ends included."""
    inside = minimize_scalar(dual, bounds=(low, high), method="bounded", options={"xatol": 1e-12, "maxiter": 200})
    return min(inside.fun, dual(low), dual(high))


# ------------------------------------------------------------------------------------------------ KL and CVaR


def kl_dual(p, v, rho, temperature):
    top = v.max()
    return top + temperature * (rho + np.log(p @ np.exp((v - top) / temperature)))


@given(problem=plain_problems(), logarithm=st.floats(-5, 5))
def test_kl_worst_case_meets_its_dual(problem, logarithm):
    p, v, rho = problem
    ball = KLBall(p, rho)
    worst = ball.worst_case(v)
    assert worst <= kl_dual(ball.p, v, rho, np.exp(logarithm)) + 1e-12
    best = minimise(lambda logarithm: kl_dual(ball.p, v, rho, np.exp(logarithm)), -25, 12)
    assert worst == pytest.approx(best, rel=0, abs=1e-8)


@given(problem=problems())
def test_the_kl_radius_bounds_the_divergence(problem):
    p, v, rho = problem
    ball = KLBall(p, rho)
    assert ball.divergence(ball.best_response(v)) <= rho * (1 + 1e-9) + 1e-12


@given(problem=plain_problems(), alpha=st.floats(0.01, 1))
def test_cvar_worst_case_meets_its_dual(problem, alpha):
    p, v, _ = problem
    worst_share = CVaR(p, alpha)
    dual = [eta + worst_share.p @ np.maximum(v - eta, 0) / alpha for eta in v]  # convex, with its corners at the v_i
    assert worst_share.worst_case(v) == pytest.approx(min(dual), rel=0, abs=1e-12)


@given(problem=problems())
def test_cvar_ends_in_the_centre_and_in_the_simplex(problem):
    p, v, _ = problem
    assert CVaR(p, 1).best_response(v) == pytest.approx(share(p), rel=0, abs=1e-15)
    assert CVaR(p, 0).worst_case(v) == pytest.approx(v[p > 0].max(), rel=1e-15)
    assert CVaR(np.ones(v.size), 0).best_response(v) == pytest.approx(Simplex(v.size).best_response(v), rel=1e-15)


# ---------------------------------------------------------------------------------------------- floors and caps


@st.composite
def bounded_sets(draw):
    """A ball or a CVaR set with a floor and caps that leave something to choose: also tight ones and closed groups."""
    p, v, rho = draw(problems())
    slack = draw(vectors(st.sampled_from([0.0, 0.5, 1.0, 1.5, 10.0]), p.size))
    extra = draw(vectors(st.sampled_from([0.0, 0.0, 0.3, 1.0]), p.size))
    upper = np.minimum(1, slack * share(p) + extra)
    room = upper[p > 0].sum()
    assume(room > 0)
    upper = upper / min(1, room)  # now and then exactly 1 in sum
    build, size = draw(st.sampled_from([(ChiSquareBall, rho), (CVaR, 1 / (1 + rho))]))
    try:
        return build(p, size, floor=draw(st.sampled_from([0.0, 0.2, 0.9, 1.0])), upper=upper), v
    except ValueError:
        assume(False)


@given(bounded=bounded_sets())
def test_floors_and_caps_are_kept_without_any_tolerance(bounded):
    uncertainty, v = bounded
    lower = np.minimum(uncertainty.floor * uncertainty.p, uncertainty.upper)
    for q in (uncertainty.best_response(v), uncertainty.project(v)):
        assert_answer(uncertainty, q)
        assert (q <= uncertainty.upper).all()
        if isinstance(uncertainty, ChiSquareBall):
            assert (q >= lower).all()
        else:
            assert (q >= np.minimum(lower, uncertainty.p / max(uncertainty.alpha, 1e-300))).all()
            assert (q * uncertainty.alpha <= uncertainty.p * (1 + 1e-15)).all()


@pytest.mark.parametrize(
    "build",
    [
        lambda p, rho, floor: ChiSquareBall(p, rho, floor=floor),
        lambda p, rho, floor: CVaR(p, 1 / (1 + rho), floor=floor),
    ],
)
@given(problem=problems(), floor=fractions)
def test_floors_are_kept_without_any_tolerance(build, problem, floor):
    p, v, rho = problem
    uncertainty = build(p, rho, floor)
    for q in (uncertainty.best_response(v), uncertainty.project(v)):
        assert_answer(uncertainty, q)
        assert (q >= floor * uncertainty.p).all()


@given(p=st.integers(2, 6).flatmap(lambda m: vectors(st.floats(0.01, 1), m)), closed=st.data())
def test_at_the_least_radius_only_the_nearest_mixture_is_left(p, closed):
    upper = np.where(closed.draw(vectors(st.booleans(), p.size)), 0, 1.0)
    assume(upper.any())
    least = ChiSquareBall(p, 1e6, upper=upper).least_radius
    ball = ChiSquareBall(p, least, upper=upper)
    nearest = ball.p * upper / (ball.p @ upper)
    assert least == pytest.approx(0.5 * (1 / (ball.p @ upper) - 1), rel=1e-9, abs=1e-15)
    for q in (ball.best_response(np.arange(p.size)), ball.project(np.arange(p.size))):
        assert q == pytest.approx(nearest, rel=0, abs=1e-7)  # the root of the rounding error of the radius


@given(problem=plain_problems(), step=st.sampled_from([-1e-9, 0.0, 1e-9]))
def test_the_vertex_is_reached_without_a_jump_where_the_radius_stops_to_bind(problem, step):
    p, v, _ = problem
    top = share(p)[v == v.max()].sum()
    limit = max(0.0, 0.5 * (1 / top - 1) * (1 + step))
    vertex = np.where(v == v.max(), share(p), 0) / top
    for ball in (ChiSquareBall(p, limit), ChiSquareBall(p, limit, upper=np.ones(p.size))):
        assert_answer(ball, ball.best_response(v))
        assert ball.worst_case(v) == pytest.approx(vertex @ v, rel=0, abs=1e-8)


# ------------------------------------------------------------------------------------------------- projections


@every_projection
@given(problem=problems())
def test_projecting_twice_changes_nothing(shape, problem):
    p, v, rho = problem
    uncertainty = SHAPES[shape](p, rho)
    q = uncertainty.project(v)
    assert uncertainty.project(q) == pytest.approx(q, rel=0, abs=1e-12)


@every_projection
@given(problem=problems(), other=st.data())
def test_projections_never_drift_apart(shape, problem, other):
    p, v, rho = problem
    w = other.draw(st.one_of(values(p.size), st.floats(-1, 1).map(lambda step: v + step * np.arange(p.size))))
    uncertainty = SHAPES[shape](p, rho)
    distance = math.hypot(*(uncertainty.project(v) - uncertainty.project(w)))
    assert distance <= math.hypot(*(v - w)) * (1 + 1e-12) + 1e-12


@every_projection
@given(problem=problems())
def test_no_mixture_in_the_set_is_nearer_than_the_projection(shape, problem):
    p, v, rho = problem
    uncertainty = SHAPES[shape](p, rho)
    q = uncertainty.project(v)
    away = v - q  # the set lies behind the plane through q that is orthogonal to this
    assert away @ (uncertainty.best_response(away) - q) <= 1e-12 * (1 + scale(v))


@every_projection
@given(problem=plain_problems(), shift=st.integers(-1000, 1000))
def test_projections_do_not_see_a_common_offset(shape, problem, shift):
    p, v, rho = problem
    uncertainty = SHAPES[shape](p, rho)
    assert uncertainty.project(v + shift) == pytest.approx(uncertainty.project(v), rel=0, abs=1e-13)
