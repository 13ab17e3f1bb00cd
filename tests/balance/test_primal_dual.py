import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance import create
from evenglot.balance.primal_dual import exponentiated_gradient
from evenglot.robust import ChiSquareBall, CVaR
from tests.golden_cases import golden

SIZES = {"a": 100, "b": 300, "c": 600}
P = np.array([0.1, 0.3, 0.6])


def observe(balancer, losses):
    balancer.observe({name: 10 * loss for name, loss in losses.items()}, dict.fromkeys(losses, 10))
    return np.array([balancer.q[name] for name in sorted(balancer.q)])


@pytest.mark.parametrize("case", golden("eg_update"))
def test_golden_exponentiated_gradient(case):
    q = exponentiated_gradient(np.array(case["q"]), np.array(case["g"]), case["step"])
    np.testing.assert_allclose(q, case["expected"]["q"], atol=case["tolerance"]["q_atol"], rtol=0)


def test_group_dro_moves_by_exponentiated_gradient_after_every_step():
    balancer = create("group-dro", SIZES, step=0.5, baseline={"a": 1.0, "b": 1.0, "c": 2.0})
    q = observe(balancer, {"a": 3.0, "b": 2.0, "c": 2.0})
    expected = np.exp(0.5 * np.array([2.0, 1.0, 0.0]))
    np.testing.assert_allclose(q, expected / expected.sum(), rtol=1e-12)


def test_smoothing_divides_the_step_by_the_share_a_group_already_has():
    balancer = create("group-dro", SIZES, step=0.1, smoothing=0.5, start="data")
    q = observe(balancer, {"a": 3.0, "b": 2.0, "c": 1.0})
    expected = P * np.exp(0.1 * np.array([3.0, 2.0, 1.0]) / (P + 0.5))
    np.testing.assert_allclose(q, expected / expected.sum(), rtol=1e-12)


def test_chi_pd_projects_on_the_ball_and_starts_at_the_data():
    balancer = create("chi-pd", SIZES, rho=0.05, step=0.2)
    first = observe(balancer, {"a": 3.0, "b": 2.0, "c": 1.0})
    ball = ChiSquareBall(P, 0.05)
    np.testing.assert_allclose(first, ball.project(P + 0.2 * np.array([3.0, 2.0, 1.0])), atol=1e-12)
    second = observe(balancer, {"a": 1.0, "b": 2.0, "c": 3.0})
    np.testing.assert_allclose(second, ball.project(first + 0.2 * np.array([1.0, 2.0, 3.0])), atol=1e-12)


def test_cvar_pd_answers_running_losses_at_every_step():
    balancer = create("cvar-pd", SIZES, alpha=0.5, ema=0.5)
    observe(balancer, {"a": 1.0, "b": 2.0, "c": 3.0})
    q = observe(balancer, {"a": 5.0, "b": 2.0, "c": 1.0})
    np.testing.assert_allclose(q, CVaR(P, 0.5).best_response([3.0, 2.0, 2.0]), atol=1e-12)


def test_token_ema_steps_by_means_over_tokens():
    balancer = create("group-dro", SIZES, step=0.3, estimator="token-ema", ema=0.5)
    before = observe(balancer, {"a": 2.0, "b": 2.0, "c": 2.0})
    balancer.observe({"a": 40.0, "b": 0.0, "c": 0.0}, {"a": 10, "b": 0, "c": 0})
    tilted = before * np.exp(0.3 * np.array([(10 + 40) / (5 + 10), 2.0, 2.0]))
    np.testing.assert_allclose([balancer.q[name] for name in "abc"], tilted / tilted.sum(), rtol=1e-12)


def test_absent_groups_step_with_their_running_loss():
    step = 0.3
    balancer = create("group-dro", SIZES, step=step)
    before = observe(balancer, {"a": 2.0, "b": 2.0, "c": 2.0})
    after = observe(balancer, {"c": 2.0})
    np.testing.assert_allclose(after, before, rtol=1e-12)  # equal losses: no group gains, whether in the batch or not


@pytest.mark.parametrize("step", [1e300, 1e308])
def test_a_step_that_overflows_takes_the_limit(step):
    losses = {"a": 3.0, "b": 1e9, "c": 1.0}
    np.testing.assert_array_equal(observe(create("group-dro", SIZES, step=step), losses), [0.0, 1.0, 0.0])
    farthest = ChiSquareBall(P, 0.05).best_response(list(losses.values()))
    np.testing.assert_allclose(observe(create("chi-pd", SIZES, step=step, rho=0.05), losses), farthest, atol=1e-6)


@pytest.mark.parametrize("strategy", ["group-dro", "chi-pd", "cvar-pd"])
def test_reweighting_draws_the_data_and_weights_the_losses(strategy):
    reweighting, resampling = (create(strategy, SIZES, apply=apply) for apply in ("reweight", "resample"))
    for balancer in (reweighting, resampling):
        observe(balancer, {"a": 3.0, "b": 2.0, "c": 1.0})
    assert reweighting.q == resampling.q == resampling.mixture.sample
    assert resampling.mixture.loss is None
    assert list(reweighting.mixture.sample.values()) == pytest.approx(P.tolist())
    effective = {n: reweighting.mixture.sample[n] * reweighting.mixture.loss[n] for n in SIZES}
    assert effective == pytest.approx(reweighting.q)


@given(st.lists(st.fixed_dictionaries({}, optional={k: st.floats(-10, 10) for k in SIZES}), max_size=30))
@pytest.mark.parametrize("strategy", ["group-dro", "chi-pd", "cvar-pd"])
def test_whatever_is_observed_the_mixture_stays_a_distribution(strategy, batches):
    balancer = create(strategy, SIZES)
    for losses in batches:
        q = observe(balancer, losses)
        assert q.sum() == pytest.approx(1, abs=1e-12)
        assert (q >= 0).all()
    weights = balancer.mixture.loss
    assert sum(balancer.mixture.sample[name] * weights[name] for name in SIZES) == pytest.approx(1)


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("group-dro", {"step": -1}, "step"),
        ("group-dro", {"smoothing": 0}, "smoothing"),
        ("group-dro", {"apply": "both"}, "apply"),
        ("group-dro", {"estimator": "interval-mean"}, "estimator"),
        ("chi-pd", {"rho": -1}, "rho"),
        ("cvar-pd", {"alpha": 2}, "alpha"),
    ],
)
def test_bad_options_are_refused_at_once(strategy, options, message):
    with pytest.raises(ValueError, match=f"^{message}:"):
        create(strategy, SIZES, **options)
