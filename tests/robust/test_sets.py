import numpy as np
import pytest

from evenglot.robust import ChiSquareBall, CVaR, KLBall, Simplex, Singleton
from tests.golden_cases import golden, values
from tests.robust.problems import SHAPES, WITH_PROJECTION, assert_answer

SUM = 1e-12  # how closely every mixture sums to 1

# ------------------------------------------------------------------------------------------------- golden cases


def chi_square(case):
    return ChiSquareBall(case["p"], case["rho"], floor=case.get("floor", 0.0))


def assert_best_response(uncertainty, case):
    q, v, expected, tolerance = (
        uncertainty.best_response(values(case)),
        values(case),
        case["expected"],
        case["tolerance"],
    )
    assert q == pytest.approx(expected["q"], rel=0, abs=tolerance["q_atol"])
    assert q @ v == pytest.approx(expected["objective"], rel=0, abs=tolerance["objective_atol"])
    assert uncertainty.worst_case(v) == q @ v
    assert abs(q.sum() - 1) <= SUM


def assert_projection(uncertainty, case):
    q, v, expected, tolerance = uncertainty.project(values(case)), values(case), case["expected"], case["tolerance"]
    assert q == pytest.approx(expected["q"], rel=0, abs=tolerance["q_atol"])
    distance = tolerance.get("objective_atol", tolerance["q_atol"] * (1 + np.abs(v - q).sum()))
    assert 0.5 * np.sum((q - v) ** 2) == pytest.approx(expected["half_sq_dist"], rel=1e-12, abs=distance)
    assert abs(q.sum() - 1) <= SUM


@pytest.mark.parametrize("case", golden("chi2_best_response") + golden("chi2_best_response_floor"))
def test_chi_square_best_response_is_golden(case):
    assert_best_response(chi_square(case), case)
    assert chi_square(case).divergence(chi_square(case).best_response(values(case))) == pytest.approx(
        case["expected"]["chi2"], rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("case", golden("chi2_best_response") + golden("chi2_best_response_floor"))
def test_chi_square_best_response_is_exact_to_rounding(case):
    assert chi_square(case).best_response(values(case)) == pytest.approx(case["expected"]["q"], rel=0, abs=5e-14)


@pytest.mark.parametrize("case", golden("chi2_projection"))
def test_chi_square_projection_is_golden(case):
    assert_projection(chi_square(case), case)


@pytest.mark.parametrize("case", golden("simplex_projection"))
def test_simplex_projection_is_golden(case):
    assert_projection(Simplex(len(values(case))), case)


@pytest.mark.parametrize("case", golden("cvar_best_response"))
def test_cvar_best_response_is_golden(case):
    assert_best_response(CVaR(case["p"], case["alpha"]), case)


@pytest.mark.parametrize("case", golden("kl_best_response"))
def test_kl_best_response_is_golden(case):
    assert_best_response(KLBall(case["p"], case["rho"]), case)


def test_toy_example_of_the_paper():
    ball = ChiSquareBall([1, 1, 1], 0.1)
    assert ball.worst_case([0.1, 0.1, 1.1]) == pytest.approx(0.6441518440, rel=0, abs=1e-10)
    assert ball.worst_case([1, 1, 1]) == pytest.approx(1, rel=0, abs=1e-15)
    assert Simplex(3).worst_case([0.1, 0.1, 1.1]) == 1.1


# --------------------------------------------------------------------------------------------- degenerate inputs

CENTRES = {
    "uniform": [1, 1, 1, 1, 1],
    "counts": [300_000, 7, 5_000, 20_000, 1],
    "two groups left out": [0, 1, 2, 0, 1],
    "1e-12": [1, 1e-12, 2, 3, 1],
    "1e-300": [1e-300, 1, 2, 1e-300, 1],
    "below the normal numbers": [1, 5e-324, 2, 1e-310, 1],
    "near overflow": [1e308, 1e308, 1e308, 1.7e308, 1e300],
}
VALUES = {
    "equal": [3, 3, 3, 3, 3],
    "zero": [0, 0, 0, 0, 0],
    "tied at the top": [2, 2, 0, 2, -1],
    "negative": [-1, -2, -3, -4, -5],
    "1e-12 apart": [3.0, 3.0 + 1e-12, 3.0 - 1e-12, 3.0 + 2e-12, 3.0],
    "1e-300": [1e-300, 0, 2e-300, 3e-300, -1e-300],
    "1e300": [1e300, 0, -1e300, 2e300, 1e299],
    "both ends of the floats": [1e308, -1e308, 1.7e308, -1.7e308, 0],
    "one far above": [1e20, 0, 0.1, 0.2, 0.3],
    "one far below": [-1e20, 0, 0.1, 0.1, 0.3],
}


@pytest.mark.parametrize("v", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("p", CENTRES.values(), ids=CENTRES)
@pytest.mark.parametrize("shape", SHAPES)
def test_degenerate_inputs_get_proper_answers(shape, p, v):
    for rho in (0, 1e-12, 0.05, 1, 1e6, 1e300):
        uncertainty = SHAPES[shape](np.array(p, float), rho)
        assert_answer(uncertainty, uncertainty.best_response(v))
        if shape in WITH_PROJECTION:
            assert_answer(uncertainty, uncertainty.project(v))


@pytest.mark.parametrize("v", [-3.0, 0.0, 1e308])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_group_gets_everything(shape, v):
    for rho in (0, 0.05, 1e300):
        uncertainty = SHAPES[shape](np.array([7.0]), rho)
        assert uncertainty.best_response([v]) == [1]
        assert uncertainty.worst_case([v]) == v
        if shape in WITH_PROJECTION:
            assert uncertainty.project([v]) == [1]


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "simplex"])
def test_equal_values_and_radius_zero_leave_the_centre(shape):
    p = np.array([5, 1e-9, 3, 0, 1])
    for rho, v in [(0.5, [2.5] * 5), (0, [1, 2, 3, 4, 5])]:
        uncertainty = SHAPES[shape](p, rho)
        assert uncertainty.best_response(v) == pytest.approx(uncertainty.p, rel=1e-15, abs=0)


@pytest.mark.parametrize("uncertainty", [ChiSquareBall([4, 1, 0, 2, 1], 3.5), KLBall([4, 1, 0, 2, 1], 1e300)])
def test_a_radius_that_does_not_bind_shares_the_top_in_proportion_to_the_centre(uncertainty):
    assert uncertainty.best_response([0, 9, 10, 0, 9]) == pytest.approx([0, 0.5, 0, 0, 0.5], rel=0, abs=1e-15)


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "simplex"])
def test_a_group_without_share_changes_nothing_even_at_the_top(shape):
    with_it = SHAPES[shape](np.array([2.0, 0, 5, 1]), 0.3)
    without = SHAPES[shape](np.array([2.0, 5, 1]), 0.3)
    assert (with_it.best_response([1, 99, 3, 2]) == np.insert(without.best_response([1, 3, 2]), 1, 0)).all()
    if shape in WITH_PROJECTION:
        assert (with_it.project([0.1, 99, 0.3, 0.6]) == np.insert(without.project([0.1, 0.3, 0.6]), 1, 0)).all()


@pytest.mark.parametrize("rho", [1e-20, 1e-17, 1e-14])
@pytest.mark.parametrize("upper", [None, [1, 1, 1]])
def test_a_tiny_radius_moves_the_centre_by_its_root(rho, upper):
    p, v = np.array([0.5, 0.3, 0.2]), np.array([1.0, 4.0, 2.0])
    centred = v - p @ v
    expected = p * (1 + np.sqrt(2 * rho / (p @ centred**2)) * centred)
    assert ChiSquareBall(p, rho, upper=upper).best_response(v) == pytest.approx(expected, rel=0, abs=3e-16)


def million(shape):
    rng = np.random.default_rng(7)
    return SHAPES[shape](rng.dirichlet(np.ones(1_000_000)), 0.5), rng.normal(size=1_000_000)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_million_groups_are_answered(shape):
    """An algorithm of quadratic complexity would not finish."""
    uncertainty, v = million(shape)
    assert_answer(uncertainty, uncertainty.best_response(v))


@pytest.mark.slow
@pytest.mark.parametrize("shape", WITH_PROJECTION)
def test_a_million_groups_are_projected(shape):
    uncertainty, v = million(shape)
    assert_answer(uncertainty, uncertainty.project(uncertainty.p + 1e-6 * v))


# ------------------------------------------------------------------------------------------------- invalid input

NAN, INF = float("nan"), float("inf")
BAD_VECTORS = {
    "nan": [1, NAN, 3],
    "inf": [1, INF, 3],
    "empty": [],
    "two-dimensional": [[1, 2, 3]],
    "a number": 3.0,
    "words": ["one", "two", "three"],
    "ragged": [[1], [2, 3], [4]],
    "nothing": None,
}
SIZED = {
    "chi-square": lambda p, size: ChiSquareBall(p, size),
    "kl": lambda p, size: KLBall(p, size),
    "cvar": lambda p, size: CVaR(p, size),
    "singleton": lambda p, size: Singleton(p),
}


def complains_about(name):
    return pytest.raises(ValueError, match=f"^{name}: ")


@pytest.mark.parametrize(
    "p", [*BAD_VECTORS.values(), [1, -1, 3], [0, 0, 0]], ids=[*BAD_VECTORS, "negative", "all zero"]
)
@pytest.mark.parametrize("build", SIZED.values(), ids=SIZED)
def test_bad_centres_are_refused_by_name(build, p):
    with complains_about("p"):
        build(p, 0.5)


@pytest.mark.parametrize(
    "v", [*BAD_VECTORS.values(), [1, 2], [1, 2, 3, 4]], ids=[*BAD_VECTORS, "too short", "too long"]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_bad_values_are_refused_by_name(shape, v):
    uncertainty = SHAPES[shape](np.array([1.0, 2, 3]), 0.5)
    for ask in (
        uncertainty.best_response,
        uncertainty.worst_case,
        getattr(uncertainty, "project", uncertainty.worst_case),
    ):
        with complains_about("v"):
            ask(v)
    for ask in (uncertainty.divergence, uncertainty.contains):
        with complains_about("q"):
            ask(v)


@pytest.mark.parametrize("rho", [-1e-300, -1, NAN, INF, "wide", None])
@pytest.mark.parametrize("build", [ChiSquareBall, KLBall])
def test_bad_radii_are_refused_by_name(build, rho):
    with complains_about("rho"):
        build([1, 2], rho)


@pytest.mark.parametrize("value", [-0.1, 1.1, NAN, INF, "half", None])
def test_bad_levels_and_floors_are_refused_by_name(value):
    with complains_about("alpha"):
        CVaR([1, 2], value)
    with complains_about("floor"):
        CVaR([1, 2], 0.5, floor=value)
    with complains_about("floor"):
        ChiSquareBall([1, 2], 0.5, floor=value)


BAD_CAPS = {
    "sum below 1": [0.3, 0.3, 0.3],
    "sum just below 1": [0.5, 0.5 - 1e-10, 0],
    "too few": [1, 1],
    "nan": [1, 1, NAN],
    "words": ["a", "b", "c"],
}


@pytest.mark.parametrize("upper", BAD_CAPS.values(), ids=BAD_CAPS)
@pytest.mark.parametrize("build", [ChiSquareBall, CVaR])
def test_bad_caps_are_refused_by_name(build, upper):
    with complains_about("upper"):
        build([1, 1, 1], 0.1, upper=upper)


def test_caps_on_groups_that_p_leaves_out_do_not_count():
    with complains_about("upper"):
        ChiSquareBall([1, 1, 0], 9, upper=[0.4, 0.4, 1])


def test_caps_that_clash_with_the_level_are_refused_by_name():
    with complains_about("upper"):
        CVaR([0.5, 0.3, 0.2], 0.8, upper=[0.3, 1, 1])  # 0.3 + 0.3/0.8 + 0.2/0.8 < 1


def test_caps_that_need_a_larger_radius_are_refused_and_the_radius_is_named():
    with pytest.raises(ValueError, match=r"^rho: .*0\.5$"):
        ChiSquareBall([0.5, 0.5], 0.4, upper=[1, 0])


@pytest.mark.parametrize("n", [0, -3, 2.5, NAN, INF, "two", None])
def test_bad_numbers_of_groups_are_refused_by_name(n):
    with complains_about("n"):
        Simplex(n)


# --------------------------------------------------------------------------------------------- other methods


def test_centres_are_divided_by_their_sum_and_cannot_be_changed():
    ball = ChiSquareBall([2, 6], 0.1)
    assert (ball.p == [0.25, 0.75]).all()
    with pytest.raises(ValueError, match="read-only"):
        ball.p[0] = 1


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_fresh_arrays_and_arguments_stay_as_they_were(shape):
    p, v = np.array([2.0, 6, 1]), np.array([1.0, 2, 4])
    uncertainty = SHAPES[shape](p, 0.1)
    first = uncertainty.best_response(v)
    kept = first.copy()
    first[:] = 0
    assert (uncertainty.best_response(v) == kept).all()
    assert (p == [2, 6, 1]).all()
    assert (v == [1, 2, 4]).all()


def test_divergences_of_known_mixtures():
    p, q = [0.5, 0.5], [0.75, 0.25]
    assert Singleton(p).divergence(q) == 0.25
    assert Simplex(2).divergence(q) == 0
    assert ChiSquareBall(p, 1).divergence(q) == 0.125
    assert KLBall(p, 1).divergence(q) == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5), rel=1e-15)
    assert CVaR(p, 0.5).divergence(q) == pytest.approx(np.log(1.5), rel=1e-15)


@pytest.mark.parametrize("uncertainty", [ChiSquareBall([1, 0], 1), KLBall([1, 0], 1), CVaR([1, 0], 0.5)])
def test_mass_on_a_group_that_p_leaves_out_is_infinitely_far_and_outside(uncertainty):
    assert uncertainty.divergence([0.9, 0.1]) == INF
    assert not uncertainty.contains([0.9, 0.1])


OUTSIDE = {
    "negative": [1.1, -0.1],
    "sum above 1": [0.6, 0.5],
    "too far": [0.9, 0.1],
}


@pytest.mark.parametrize("q", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize(
    "uncertainty", [Singleton([1, 1]), ChiSquareBall([1, 1], 0.1), KLBall([1, 1], 0.1), CVaR([1, 1], 0.7)]
)
def test_what_is_outside_is_not_contained(uncertainty, q):
    assert uncertainty.contains([0.5, 0.5])
    assert not uncertainty.contains(q)


def test_contains_sees_floors_and_caps():
    for bounded in (ChiSquareBall([1, 1], 9, floor=0.5, upper=[0.7, 1]), CVaR([1, 1], 0, floor=0.5, upper=[0.7, 1])):
        assert bounded.contains([0.7, 0.3])
        assert bounded.contains([0.25, 0.75])
        assert not bounded.contains([0.71, 0.29])
        assert not bounded.contains([0.24, 0.76])
