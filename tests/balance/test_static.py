import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance import create
from evenglot.balance.static import mix, temperature, unimax
from tests.golden_cases import golden

sizes_lists = st.lists(st.integers(1, 10**8), min_size=1, max_size=12)
SIZES = {"aze": 1000, "tur": 30_000, "rus": 69_000}


@pytest.mark.parametrize("case", golden("temperature"))
def test_golden_temperatures(case):
    q = temperature(case["sizes"], float(case["tau"]))
    np.testing.assert_allclose(q, case["expected"]["p"], atol=case["tolerance"]["p_atol"], rtol=0)


@given(sizes_lists, st.floats(0.05, 1000))
def test_temperature_keeps_order_and_tau_one_is_proportional(sizes, tau):
    q = temperature(sizes, tau)
    assert q.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(q[np.argsort(sizes)]) >= -1e-15).all()
    np.testing.assert_allclose(temperature(sizes, 1), np.array(sizes) / sum(sizes), rtol=1e-12)


@pytest.mark.parametrize("tau", [0, -1, float("nan"), "warm"])
def test_bad_temperatures_are_refused(tau):
    with pytest.raises(ValueError, match="^tau:"):
        create("temperature", SIZES, tau=tau)


@given(sizes_lists, st.floats(0, 1))
def test_mix_is_between_proportional_and_uniform(sizes, alpha):
    p, uniform = temperature(sizes, 1), np.full(len(sizes), 1 / len(sizes))
    np.testing.assert_allclose(mix(sizes, alpha), p + alpha * (uniform - p), atol=1e-12)
    assert mix(sizes, alpha).sum() == pytest.approx(1, abs=1e-12)


def test_mix_is_a_strategy_a_centre_and_a_point_of_a_schedule():
    q = create("mix", {**SIZES, "bel": 0}, alpha=0.5).q
    assert q == pytest.approx({"aze": 0.005 + 1 / 6, "bel": 0, "rus": 0.345 + 1 / 6, "tur": 0.15 + 1 / 6})
    assert create("schedule", {**SIZES, "bel": 0}, points={0: "mix:0.5"}).q == q
    assert create("chi-ibr", {**SIZES, "bel": 0}, center="mix:0.5").q == q


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), "half"])
def test_bad_weights_of_mix_are_refused(alpha):
    with pytest.raises(ValueError, match="^alpha:"):
        create("mix", SIZES, alpha=alpha)
    with pytest.raises(ValueError, match=f"^points: 'mix:{alpha}'"):
        create("schedule", SIZES, points={0: f"mix:{alpha}"})


@given(sizes_lists, st.floats(1, 50), st.floats(0.01, 1))
def test_unimax_never_exceeds_the_passes_and_is_uniform_where_it_can_be(sizes, passes, part):
    size = np.array(sizes, dtype=float)
    budget = part * passes * size.sum()
    given_out = budget * unimax(sizes, passes, budget)
    assert given_out.sum() == pytest.approx(budget)
    assert (given_out <= passes * size * (1 + 1e-9)).all()
    capped = given_out >= passes * size * (1 - 1e-9)
    if not capped.all():
        free = given_out[~capped]
        np.testing.assert_allclose(free, free[0], rtol=1e-9)
        assert (given_out[capped] <= free[0] * (1 + 1e-9)).all()


def test_unimax_by_hand():
    assert unimax([10, 100, 1000], passes=2, budget=300).tolist() == pytest.approx([20 / 300, 140 / 300, 140 / 300])


def test_unimax_refuses_a_budget_beyond_the_data():
    with pytest.raises(ValueError, match=r"^passes: 0\.5 .*; .*\b1\b"):
        create("unimax", SIZES, passes=0.5)
    with pytest.raises(ValueError, match="^passes:"):
        create("unimax", SIZES, passes=2, budget=2.1 * sum(SIZES.values()))


def test_uniform_leaves_empty_corpora_out():
    assert create("uniform", {**SIZES, "bel": 0}).q == {"aze": 1 / 3, "bel": 0, "rus": 1 / 3, "tur": 1 / 3}


def test_static_strategies_never_move():
    balancer = create("temperature", SIZES, tau=5)
    before = balancer.mixture
    balancer.observe({"aze": 5.0}, {"aze": 1})
    assert balancer.update() is False
    assert balancer.mixture == before
    assert before.loss is None


def test_a_schedule_holds_or_interpolates():
    points = {0: "uniform", 2: "data"}
    uniform, data = create("uniform", SIZES).q, create("proportional", SIZES).q
    steps = create("schedule", SIZES, points=points)
    assert [steps.update(), steps.q == uniform] == [False, True]
    assert [steps.update(), steps.q == data] == [True, True]
    assert [steps.update(), steps.q == data] == [False, True]
    slopes = create("schedule", SIZES, points=points, interpolate=True)
    assert slopes.update()
    assert slopes.q["aze"] == pytest.approx((uniform["aze"] + data["aze"]) / 2)


def test_the_spec_of_a_mixture_may_be_shares_by_group():
    balancer = create("schedule", SIZES, points={0: {"aze": 1, "tur": 1, "rus": 2}})
    assert balancer.q == {"aze": 0.25, "rus": 0.5, "tur": 0.25}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({}, "points:"),
        ({1: "data"}, "points:"),
        ("data", "points:"),
        ({0: "tau:cold"}, "points: 'tau:cold'"),
        ({0: "warm"}, "points:"),
        ({0: {"aze": 1}}, "points: .*rus, tur"),
    ],
)
def test_bad_schedules_are_refused(points, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        create("schedule", SIZES, points=points)
