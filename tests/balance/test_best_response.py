import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance import UnservedError, create
from evenglot.balance.best_response import radius_for_upsampling
from evenglot.balance.static import temperature
from evenglot.robust import ChiSquareBall, CVaR

TOKENS = dict.fromkeys(("bel", "aze", "glg", "slk", "ces", "tur", "por", "rus"), 1_000_000)
LOSSES = {"bel": 4.1, "aze": 4.4, "glg": 3.2, "slk": 3.0, "ces": 3.1, "tur": 3.6, "por": 2.5, "rus": 3.4}
BASELINE = {"bel": 3.0, "aze": 3.1, "glg": 2.4, "slk": 2.5, "ces": 2.6, "tur": 2.8, "por": 2.2, "rus": 2.9}


def after_one_interval(balancer, losses=LOSSES, split="train"):
    balancer.observe({name: 20 * loss for name, loss in losses.items()}, dict.fromkeys(losses, 20), split=split)
    balancer.update()
    return balancer


def vector(balancer, values):
    return np.array([values[name] for name in balancer.groups.names])


def test_chi_ibr_starts_at_the_data_and_plays_the_best_response_to_excess_losses(ted):
    balancer = create("chi-ibr", ted, rho=0.05, baseline=BASELINE, floor=0.2)
    p = vector(balancer, ted) / sum(ted.values())
    np.testing.assert_allclose(vector(balancer, balancer.q), p, rtol=1e-12)
    after_one_interval(balancer)
    expected = ChiSquareBall(p, 0.05, floor=0.2).best_response(vector(balancer, LOSSES) - vector(balancer, BASELINE))
    np.testing.assert_allclose(vector(balancer, balancer.mixture.sample), expected, atol=1e-12)
    assert balancer.mixture.loss is None


def test_cvar_ibr_plays_the_worst_share_of_the_data(ted):
    balancer = after_one_interval(create("cvar-ibr", ted, alpha=0.5, baseline=BASELINE, floor=0.1))
    expected = CVaR(vector(balancer, ted), 0.5, floor=0.1).best_response(
        vector(balancer, LOSSES) - vector(balancer, BASELINE)
    )
    np.testing.assert_allclose(vector(balancer, balancer.q), expected, atol=1e-12)


@given(st.floats(1, 50))
def test_max_upsample_is_reached_by_the_rarest_group_and_not_exceeded(factor):
    sizes = {"rare": 40, "common": 2000, "most": 5000}
    balancer = create("chi-ibr", sizes, max_upsample=factor, floor=0)
    after_one_interval(balancer, {"rare": 5.0, "common": 1.0, "most": 1.0})
    assert balancer.q["rare"] / (40 / 7040) == pytest.approx(factor)


def test_the_paper_radii_allow_the_rarest_language_about_five_fold(ted):
    assert radius_for_upsampling(np.array(list(ted.values())) / sum(ted.values()), 5.1) == pytest.approx(0.05, rel=0.01)
    assert radius_for_upsampling(np.array([1.0]), 5) == 0


@given(st.floats(1, 20), st.sampled_from(["data", "tau:1.3"]))
def test_a_radius_can_be_the_distance_of_a_mixture(tau, center):
    sizes = {"rare": 40, "common": 2000, "most": 5000}
    balancer = create("chi-ibr", sizes, rho=f"tau:{tau!r}", center=center, floor=0)
    p = vector(balancer, sizes)
    around = p / p.sum() if center == "data" else temperature(p, 1.3)
    distance = ChiSquareBall(around, 1.0).divergence(temperature(p, tau))
    assert balancer.rule.rho == pytest.approx(distance)
    after_one_interval(balancer, {"rare": 5.0, "common": 3.0, "most": 1.0})
    assert ChiSquareBall(around, 1.0).divergence(vector(balancer, balancer.q)) == pytest.approx(distance, abs=1e-9)


def test_the_ball_can_lie_around_another_mixture_than_the_data(ted):
    balancer = create("chi-ibr", ted, rho=0.05, center="tau:3", floor=0)
    centre = temperature(vector(balancer, ted), 3)
    np.testing.assert_allclose(vector(balancer, balancer.q), centre, rtol=1e-12)
    after_one_interval(balancer)
    expected = ChiSquareBall(centre, 0.05).best_response(vector(balancer, LOSSES))
    np.testing.assert_allclose(vector(balancer, balancer.q), expected, atol=1e-12)


def test_a_group_never_seen_is_treated_neutrally(ted):
    seen = {name: loss for name, loss in LOSSES.items() if name != "glg"}
    balancer = after_one_interval(create("chi-ibr", ted, rho=0.001, baseline=BASELINE), seen)
    share = ted["glg"] / sum(ted.values())
    assert balancer.q["glg"] == pytest.approx(share, rel=1e-9)
    assert balancer.losses["glg"] is None


def test_without_observations_nothing_moves(ted):
    balancer = create("chi-ibr", ted)
    before = balancer.q
    assert balancer.update() is False
    assert balancer.q == before


def test_warm_up_observes_but_does_not_move(ted):
    balancer = create("chi-ibr", ted, warmup=3)
    before = balancer.q
    moves = []
    for _ in range(4):
        balancer.observe({name: 20 * loss for name, loss in LOSSES.items()}, dict.fromkeys(LOSSES, 20))
        moves.append(balancer.update())
    assert moves[:3] == [False, False, True]
    assert balancer.q != before


def test_the_signal_may_be_held_out_loss(ted):
    balancer = create("chi-ibr", ted, rho=0.05, signal="valid", loss_per="character")
    assert (balancer.signal.split, balancer.signal.unit) == ("valid", "character")
    with pytest.raises(UnservedError):
        after_one_interval(balancer, split="train")
    assert balancer.losses["aze"] is None
    after_one_interval(balancer, split="valid")
    assert balancer.losses["aze"] == pytest.approx(LOSSES["aze"])
    after_one_interval(balancer, dict.fromkeys(LOSSES, 1.0), split="valid")
    assert balancer.losses["aze"] == pytest.approx(1.0)  # the latest validation, not an average with older ones


def test_a_cap_on_the_ratio_holds_inside_the_ball(ted):
    free = after_one_interval(create("chi-ibr", ted, rho=0.5, floor=0.1))
    capped = after_one_interval(create("chi-ibr", ted, rho=0.5, floor=0.1, max_ratio=2))
    p = vector(free, ted) / sum(ted.values())
    assert (vector(free, free.q) / p).max() > 2.5
    q = vector(capped, capped.q)
    assert (q / p).max() <= 2 + 1e-12
    assert ChiSquareBall(p, 0.5, 0.1, upper=2 * p).contains(q)


@pytest.mark.parametrize("strategy", ["chi-ibr", "cvar-ibr"])
@pytest.mark.parametrize("center", ["data", "tau:5"])
def test_no_corpus_is_shown_more_often_than_the_budget_allows(ted, strategy, center):
    intervals, most = 12, 20
    balancer = create(strategy, ted, center=center, max_passes=most, intervals=intervals)
    for t in range(intervals):
        assert sum(balancer.q.values()) == pytest.approx(1)
        losses = {name: loss + 3 * (name == "bel") + (t % 3) * (name == "aze") for name, loss in LOSSES.items()}
        after_one_interval(balancer, losses)
    assert max(balancer.passes.values()) <= most + 1e-6
    assert max(balancer.passes.values()) > 12 + 1e-3  # the budget was used, not avoided
    after_one_interval(balancer)  # a run longer than planned does not fail
    assert sum(balancer.q.values()) == pytest.approx(1)


@pytest.mark.parametrize("strategy", ["chi-ibr", "cvar-ibr"])
def test_used_up_corpora_are_shown_in_proportion_to_their_sizes(strategy):
    sizes = {"a": 10, "b": 90}
    balancer = create(strategy, sizes, floor=0.0, max_passes=12, max_ratio=4, intervals=10)
    for _ in range(10):  # intervals are three times as long as planned
        balancer.observe({"a": 5.0, "b": 1.0}, {"a": 1, "b": 1})
        balancer.update({name: round(300 * share) for name, share in balancer.mixture.sample.items()})
    assert balancer.q == pytest.approx({"a": 0.1, "b": 0.9})
    assert balancer.passes == pytest.approx({"a": 30, "b": 30}, rel=0.1)  # no mixture could have done better


@pytest.mark.parametrize("strategy", ["chi-ibr", "cvar-ibr"])
def test_caps_are_kept_around_a_centre_without_some_group(strategy):
    sizes = {"a": 1000, "b": 333}
    balancer = create(strategy, sizes, center={"a": 1, "b": 0}, max_passes=13.33, intervals=10)
    balancer.observe({"a": 5.0, "b": 1.0}, {"a": 1, "b": 1})
    balancer.update({"a": 1334, "b": 0})
    assert balancer.q == {"a": 1.0, "b": 0.0}


def test_realised_draws_can_be_told(ted):
    balancer = create("chi-ibr", ted)
    balancer.update(drawn={"bel": 4509 * 3})
    assert balancer.passes["bel"] == 3
    assert balancer.passes["rus"] == 0
    with pytest.raises(ValueError, match="^drawn: .*'bel'.*-1"):
        balancer.update(drawn={"bel": -1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.1, "max_upsample": 3}, "max_upsample"),
        ({"rho": "tau:1.5", "max_upsample": 3}, "max_upsample"),
        ({"rho": "tau:0"}, "rho: 'tau:0': tau: "),
        ({"rho": "far"}, "rho: .*'far'"),
        ({"max_upsample": 0.5}, "max_upsample"),
        ({"preset": "papr"}, "preset: .*'papr'.*'paper'"),
        ({"preset": "paper"}, "rho"),
        ({"preset": "released-ted", "max_ratio": 3}, "preset"),
        ({"floor": 2}, "floor"),
        ({"ema": 0}, "ema"),
        ({"estimator": "median"}, "estimator"),
        ({"signal": "test"}, "signal"),
        ({"loss_per": "sentence"}, "loss_per"),
        ({"max_ratio": 0.5}, "max_ratio"),
        ({"max_passes": 5}, "intervals"),
        ({"max_passes": 5, "intervals": 6}, "max_passes"),
        ({"max_passes": 5, "intervals": "many"}, "intervals"),
        ({"max_passes": 5, "intervals": 2, "interval_size": -10}, "interval_size"),
        ({"max_passes": 5, "intervals": 2, "p_unit": "tokens", "tokens": TOKENS}, "max_passes: .*p_unit"),
        ({"warmup": -1}, "warmup"),
        ({"center": "warm"}, "center"),
        ({"center": {"bel": "x"}}, "center"),
        ({"preset": None}, "preset"),
        ({"baseline": 3.0}, "baseline"),
        ({"baseline": dict.fromkeys(LOSSES, "x")}, "baseline"),
        ({"rho": 10**400}, "rho"),
        ({"estimator": "interval-mean", "reset": True}, "reset"),
    ],
)
def test_bad_options_are_refused_at_once(ted, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        create("chi-ibr", ted, **options)
