import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.robust import ChiSquareBall, CVaR, chi_square_weights, cvar_weights, penalised_chi_square_weights
from tests.golden_cases import golden, values
from tests.robust.problems import powers_of_ten, vectors
from tests.robust.problems import values as hard_values

WEIGHTS = {
    "chi2": lambda v, size, penalty: chi_square_weights(v, size),
    "cvar": lambda v, size, penalty: cvar_weights(v, size),
    "chi2_penalty": lambda v, size, penalty: penalised_chi_square_weights(v, penalty),
    "chi2_both": lambda v, size, penalty: chi_square_weights(v, size, penalty=penalty),
    "kl_cvar": lambda v, size, penalty: cvar_weights(v, size, penalty=penalty),
}
PENALISED = ["chi2_penalty", "chi2_both", "kl_cvar"]
every_kind = pytest.mark.parametrize("kind", WEIGHTS)


def value(kind, q, v, penalty):
    """What the weights maximise."""
    ratio = q * q.size
    if kind == "kl_cvar":
        return q @ v - penalty * np.sum(q * np.log(ratio, where=ratio > 0, out=np.zeros_like(q)))
    return q @ v - (penalty * 0.5 * np.mean((ratio - 1) ** 2) if kind in PENALISED else 0)


def assert_weights(q):
    assert np.isfinite(q).all()
    assert (q >= 0).all()
    assert abs(q.sum() - 1) <= 1e-12


@pytest.mark.parametrize("case", golden("fastdro_batch"))
def test_batch_weights_are_golden(case):
    kind, v, penalty, expected, tolerance = (
        case["kind"],
        values(case),
        case["reg"],
        case["expected"],
        case["tolerance"],
    )
    q = WEIGHTS[kind](v, case["size"], penalty)
    assert q == pytest.approx(expected["q"], rel=0, abs=tolerance["q_atol"])
    assert value(kind, q, v, penalty) == pytest.approx(expected["value"], rel=0, abs=tolerance["value_atol"])
    assert abs(q.sum() - 1) <= 1e-12


DEGENERATE = {
    "one": [4.0],
    "equal": [2.0, 2.0, 2.0],
    "zero": [0.0, 0.0],
    "tied at the top": [3.0, 3.0, 1.0, -1.0],
    "negative": [-1.0, -2.0, -3.0],
    "1e-12 apart": [3.0, 3.0 + 1e-12, 3.0 - 1e-12],
    "1e-300": [1e-300, 3e-300, 2e-300],
    "1e300": [1e300, 3e300, -2e300],
    "both ends of the floats": [1e308, -1e308, 1.7e308, -1.7e308],
    "far apart": [0.0, -1e4, -2e4, -3e4],
}


@every_kind
@pytest.mark.parametrize("v", DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_losses_get_proper_weights(kind, v):
    for size in (0, 1e-310, 0.05, 0.5, 1):
        for penalty in (0, 5e-324, 1e-300, 1e-3, 1, 1e300):
            assert_weights(WEIGHTS[kind](v, size, penalty))


@every_kind
@given(problem=st.integers(1, 8).flatmap(hard_values), size=st.floats(0, 1), penalty=powers_of_ten(-12, 12))
def test_weights_are_distributions_in_the_order_of_the_losses(kind, problem, size, penalty):
    q = WEIGHTS[kind](problem, size, penalty)
    assert_weights(q)
    assert (np.diff(q[np.argsort(problem, kind="stable")]) >= -1e-15).all()


@given(v=st.integers(1, 8).flatmap(hard_values), size=st.floats(0, 1))
def test_without_penalty_the_weights_answer_the_set_around_uniform(v, size):
    uniform = np.ones(v.size)
    assert (chi_square_weights(v, size) == ChiSquareBall(uniform, size).best_response(v)).all()
    assert (cvar_weights(v, size) == CVaR(uniform, size).best_response(v)).all()


@every_kind
def test_the_gradient_of_the_batch_value_is_the_weights(kind):
    v, size, penalty, h = np.array([0.3, 2.1, -0.7, 1.2, 0.9, 1.6]), 0.45, 0.4, 1e-6

    def robust_loss(v):
        return value(kind, WEIGHTS[kind](v, size, penalty), v, penalty)

    slopes = [(robust_loss(v + h * step) - robust_loss(v - h * step)) / (2 * h) for step in np.eye(v.size)]
    assert WEIGHTS[kind](v, size, penalty) == pytest.approx(slopes, rel=0, abs=1e-7)


losses = st.integers(2, 8).flatmap(lambda m: vectors(st.floats(-5, 5), m))


@pytest.mark.parametrize("kind", PENALISED)
@given(v=losses, size=st.floats(0.05, 1), penalty=st.floats(0.01, 10), other=st.data())
def test_no_other_weights_have_a_larger_value(kind, v, size, penalty, other):
    q = WEIGHTS[kind](v, size, penalty)
    rival = WEIGHTS[kind](other.draw(vectors(st.floats(-5, 5), v.size)), size, other.draw(st.floats(0.01, 10)))
    for part in (1e-3, 0.5, 1.0):
        mixed = (1 - part) * q + part * rival
        assert value(kind, mixed, v, penalty) <= value(kind, q, v, penalty) + 1e-12


@given(v=losses, penalty=st.floats(0.01, 10))
def test_penalised_weights_rise_in_a_straight_line_with_the_loss(v, penalty):
    q = penalised_chi_square_weights(v, penalty)
    used = q > 0
    slope = 1 / (penalty * v.size)
    assert q[used] - q.max() == pytest.approx(slope * (v[used] - v.max()), rel=0, abs=1e-12)
    assert (q.max() + slope * (v[~used] - v.max()) <= 1e-12).all()


@given(v=losses, alpha=st.floats(0.05, 1), penalty=st.floats(0.01, 10))
def test_penalised_cvar_weights_are_a_softmax_under_a_cap(v, alpha, penalty):
    q, cap = cvar_weights(v, alpha, penalty=penalty), min(1, 1 / (alpha * v.size))
    assert (q <= cap * (1 + 1e-12)).all()
    capped = q >= cap * (1 - 1e-12)
    assert v[capped].min(initial=np.inf) >= v[~capped].max(initial=-np.inf)
    free = ~capped & (q > 1e-12)
    level = v[free] - penalty * np.log(q[free])  # t of q = exp((v - t) / penalty)
    assert level == pytest.approx(level[:1].repeat(level.size), rel=0, abs=1e-9)
    assert (v[capped] - penalty * np.log(cap) >= level.max(initial=-np.inf) - 1e-9).all()


@pytest.mark.parametrize("kind", PENALISED)
def test_a_vanishing_penalty_is_no_penalty_and_a_huge_one_leaves_uniform_weights(kind):
    v = np.array([1.0, 5.0, 2.0, 4.9])
    assert WEIGHTS[kind](v, 0.6, 1e-9) == pytest.approx(WEIGHTS[kind](v, 0.6, 0), rel=0, abs=1e-7)
    assert WEIGHTS[kind](v, 0.6, 1e9) == pytest.approx(np.full(4, 0.25), rel=0, abs=1e-8)


def test_a_small_penalty_does_not_lose_the_losses_below_the_cap():
    # exp(-1000) is 0 in floating point, yet the second loss must get all that the cap on the first one leaves
    assert cvar_weights([3.0, 2.0, 1.0], 0.5, penalty=1e-3) == pytest.approx([2 / 3, 1 / 3, 0], rel=0, abs=1e-15)


@every_kind
@pytest.mark.parametrize("bad", [[], [1, float("nan")], [[1, 2]], ["a", "b"], None])
def test_bad_losses_are_refused_by_name(kind, bad):
    with pytest.raises(ValueError, match="^losses: "):
        WEIGHTS[kind](bad, 0.5, 0.5)


@pytest.mark.parametrize(
    ("kind", "name"), [("chi2", "rho"), ("chi2_both", "rho"), ("cvar", "alpha"), ("kl_cvar", "alpha")]
)
def test_bad_sizes_are_refused_by_name(kind, name):
    for bad in (-0.1, float("nan"), float("inf"), "large"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            WEIGHTS[kind]([1, 2], bad, 0.5)


@pytest.mark.parametrize("kind", PENALISED)
@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), "large"])
def test_bad_penalties_are_refused_by_name(kind, bad):
    with pytest.raises(ValueError, match="^penalty: "):
        WEIGHTS[kind]([1, 2], 0.5, bad)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_a_million_losses_are_weighted(kind):
    assert_weights(WEIGHTS[kind](np.random.default_rng(3).normal(size=1_000_000), 0.3, 0.2))
