"""The default follows differences of losses, and not their noise."""

import logging

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenglot.balance import create
from evenglot.balance.noise import signal_share
from evenglot.robust import ChiSquareBall
from tests.balance.conftest import TED

NAMES = sorted(TED)
UPDATES = 200


def play(balancer, truth, noise, rng, intervals, tokens=4000):
    """Per interval, the share of the mixture that moved. `noise` is the standard deviation of a token's loss."""
    moved = []
    for _ in range(intervals):
        before = np.array([balancer.q[name] for name in NAMES])
        sample = np.array([balancer.mixture.sample[name] for name in NAMES])
        for _ in range(UPDATES):
            counts = rng.poisson(tokens * sample)
            sums = counts * truth + noise * np.sqrt(counts) * rng.normal(size=len(NAMES))
            balancer.observe(dict(zip(NAMES, sums, strict=True)), dict(zip(NAMES, counts.tolist(), strict=True)))
        balancer.update()
        moved.append(np.abs(np.array([balancer.q[name] for name in NAMES]) - before).sum() / 2)
    return np.array(moved)


@settings(max_examples=10, deadline=None)
@given(noise=st.floats(-6, 2).map(lambda power: 10**power), seed=st.integers(0, 2**32 - 1))
def test_equal_losses_hardly_move_the_mixture_whatever_their_noise(noise, seed):
    moved = play(create("chi-ibr", TED), np.full(8, 3.0), noise, np.random.default_rng(seed), 5)
    assert moved.mean() < 0.02


def test_equal_losses_moved_much_of_it_when_noise_was_ignored():
    """Measured with the option, so that the law above says something."""
    moved = play(create("chi-ibr", TED, noise="ignore"), np.full(8, 3.0), 3.0, np.random.default_rng(1), 10)
    assert moved.mean() > 0.1


@pytest.mark.parametrize("behind", NAMES)
def test_a_gap_of_five_percent_acts_within_three_intervals(behind):
    balancer = create("chi-ibr", TED)
    truth = np.where(np.array(NAMES) == behind, 3.15, 3.0)
    play(balancer, truth, 2.0, np.random.default_rng(5), 3)
    p, best = TED[behind] / sum(TED.values()), balancer.reach(behind)
    assert balancer.q[behind] - p > (best - p) / 4


@given(losses=st.lists(st.floats(0.1, 10), min_size=8, max_size=8), steps=st.integers(2, 5))
def test_without_noise_it_is_the_exact_best_response(losses, steps):
    truth = np.array(losses)
    assume(np.ptp(truth) > 1e-3)
    balancer = create("chi-ibr", TED)
    for _ in range(steps):
        balancer.observe(dict(zip(NAMES, 7 * truth, strict=True)), dict.fromkeys(NAMES, 7))
    balancer.update()
    groups = balancer.groups
    excess = groups.vector(dict(zip(NAMES, truth, strict=True)), "losses")
    exact = ChiSquareBall(groups.p, balancer.rule.rho, 0.2).best_response(excess)
    assert groups.vector(balancer.q, "q") == pytest.approx(exact, abs=1e-9)


@given(value=st.floats(0.1, 10), counts=st.lists(st.integers(1, 999), min_size=16, max_size=16))
def test_rounding_is_noise(value, counts):
    balancer = create("chi-ibr", TED)
    for part in (counts[:8], counts[8:]):
        observed = dict(zip(NAMES, part, strict=True))
        balancer.observe({name: value * count for name, count in observed.items()}, observed)
    balancer.update()
    assert balancer.q == pytest.approx(balancer.groups.keyed(balancer.groups.p), abs=1e-3)


def test_a_group_whose_noise_is_unknown_is_neutral_and_named_once(caplog):
    losses = {name: 3.0 + (name == "rus") for name in NAMES}
    balancer = create("chi-ibr", TED, rho=0.001, floor=0)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            balancer.observe({**losses, "aze": 90.0}, dict.fromkeys(NAMES, 1))
            balancer.observe(
                {name: losses[name] for name in NAMES if name != "aze"}, dict.fromkeys(set(NAMES) - {"aze"}, 1)
            )
            balancer.update()
    p = balancer.groups.keyed(balancer.groups.p)
    assert balancer.q["aze"] == pytest.approx(p["aze"], rel=1e-6)
    assert balancer.q["rus"] > p["rus"]
    assert ["aze" in record.getMessage() for record in caplog.records] == [True]


def test_if_all_noise_is_unknown_it_is_ignored():
    aware, exact = create("chi-ibr", TED), create("chi-ibr", TED, noise="ignore")
    for balancer in (aware, exact):
        balancer.observe({name: float(len(name) + (name == "bel")) for name in NAMES}, dict.fromkeys(NAMES, 1))
        assert balancer.update()
    assert aware.q == exact.q


@given(
    gap=st.floats(0, 5),
    noise=st.floats(0, 5),
    factor=st.floats(0.01, 100),
)
def test_the_share_depends_on_the_ratio_of_gap_and_noise_and_falls_with_noise(gap, noise, factor):
    centre, errors = np.array([0.2, 0.3, 0.5]), np.array([1.0, 0.5, 0.7])
    v = gap * np.array([1.0, 0.0, 0.0])
    share = signal_share(v, noise * errors, centre)
    assert 0 <= share <= 1
    assert signal_share(factor * v, factor * noise * errors, centre) == pytest.approx(share, abs=1e-6)
    assert signal_share(v, 2 * noise * errors, centre) <= share


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_limits_hold_though_answers_are_damped(seed):
    rng = np.random.default_rng(seed)
    balancer = create("chi-ibr", TED, rho=0.5, max_passes=6, intervals=5)
    for _ in range(5):
        caps = balancer.caps.upper(
            balancer.groups, balancer.groups.vector(balancer.passes, "passes"), balancer.intervals
        )
        q = balancer.groups.vector(balancer.q, "q")
        assert (q <= caps * (1 + 1e-9)).all()
        for _ in range(4):
            balancer.observe(dict(zip(NAMES, rng.uniform(2, 4, 8), strict=True)), dict.fromkeys(NAMES, 1))
        balancer.update()
    assert max(balancer.passes.values()) <= 6 * (1 + 1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"noise": "louder"},
        {"noise": "aware", "estimator": "ema"},
        {"noise": "aware", "signal": "valid"},
        {"noise": "aware", "preset": "released-ted", "estimator": "interval-mean"},
    ],
)
def test_noise_needs_standard_errors(options):
    with pytest.raises(ValueError, match="^noise: "):
        create("chi-ibr", TED, **options)


def test_the_presets_of_the_paper_ignore_noise():
    assert create("chi-ibr", TED).noise is not None
    for options in ({"preset": "paper", "rho": 0.05}, {"preset": "released-ted"}, {"preset": "released-wmt"}):
        for estimator in (None, "interval-mean"):
            assert create("chi-ibr", TED, estimator=estimator, **options).noise is None
