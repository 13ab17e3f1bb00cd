import pytest

from evenglot.balance import create
from evenglot.preview.simulate import learning_curves, simulate

SIZES = {"aze": 1000, "tur": 9000}


def test_a_scripted_trajectory_moves_the_mixture_towards_the_language_that_falls_behind():
    script = [{"aze": 4.0, "tur": 2.0}] * 3 + [{"aze": 1.0, "tur": 2.0}] * 3
    run = simulate(create("chi-ibr", SIZES, rho=0.05, ema=1.0), script)
    shares = [mixture["aze"] for mixture in run.mixtures]
    assert shares[0] == pytest.approx(0.1)
    assert shares[1] == shares[2] == shares[3] > 0.19
    assert shares[4] == shares[5] < 0.1
    assert run.losses == script
    assert run.passes["aze"] == pytest.approx(sum(drawn["aze"] for drawn in run.drawn) / 1000)


def test_passes_count_what_is_drawn():
    run = simulate(create("uniform", SIZES), [{"aze": 1.0, "tur": 1.0}] * 4)
    assert run.passes == pytest.approx({"aze": 4 * 5, "tur": 4 * 5 / 9}, rel=1e-3)


def test_intervals_may_be_shorter_than_the_data():
    run = simulate(create("proportional", SIZES), [{"aze": 1.0, "tur": 1.0}] * 4, interval_size=500)
    assert run.passes == pytest.approx({"aze": 4 * 0.05, "tur": 4 * 0.05}, rel=0.03)


def test_the_smallest_share_is_observed():
    sizes = {"tiny": 10, "big": 10**9}
    run = simulate(create("chi-ibr", sizes, max_upsample=5), [{"tiny": 9.0, "big": 2.0}] * 2)
    assert run.mixtures[1]["tiny"] == pytest.approx(5e-8, rel=1e-6)


def test_a_script_may_answer_to_what_was_shown():
    curves = learning_curves(SIZES, {"aze": 2.0, "tur": 2.0})
    proportional = simulate(create("proportional", SIZES), curves, 10)
    uniform = simulate(create("uniform", SIZES), curves, 10)
    assert uniform.losses[-1]["aze"] < proportional.losses[-1]["aze"]
    assert uniform.losses[-1]["tur"] > proportional.losses[-1]["tur"]
    assert proportional.losses[-1]["aze"] < proportional.losses[0]["aze"]


def test_held_out_signals_and_rewards_can_be_scripted():
    script = [{"aze": 4.0, "tur": 2.0}] * 2
    assert simulate(create("chi-ibr", SIZES, rho=0.05, signal="valid"), script).mixtures[1]["aze"] > 0.1
    rewarded = simulate(create("multidds", SIZES), script, rewards=lambda interval: {"aze": 1.0, "tur": 0.0})
    assert rewarded.mixtures[1]["aze"] > 0.1


def test_an_incomplete_script_is_refused():
    with pytest.raises(ValueError, match="^rewards:"):
        simulate(create("multidds", SIZES), [{"aze": 4.0, "tur": 2.0}])
    with pytest.raises(ValueError, match=r"^losses: .*1\D*2\b"):
        simulate(create("uniform", SIZES), [{"aze": 4.0, "tur": 2.0}], 2)
    with pytest.raises(ValueError, match="^losses: .*tur"):
        simulate(create("uniform", SIZES), [{"aze": 4.0}])
    with pytest.raises(ValueError, match="^intervals:"):
        simulate(create("uniform", SIZES), learning_curves(SIZES, SIZES))
