"""The law of effective data in experiments/law.py."""

import numpy as np
import pytest

from experiments.law import FADING, FIXED, NOISE, Setting, exposure, fit, log_data

SIZES = np.array([30000.0, 10000.0, 2000.0, 600.0])


def made_up(repeats, transfer, passes=4.0, noise=0.0):
    """Runs that follow the law exactly, or with noise, of all fixed mixtures."""
    empty = Setting("made up", tuple("abcd"), SIZES, np.full((1, 4), passes), np.zeros((1, 4)), np.zeros((1, 4)))
    exposures = np.array([exposure(empty, *row) for row in FIXED.values()])
    chance = np.random.default_rng(1).normal(size=exposures.shape)
    chrf = 30 + 8 * log_data(exposures, SIZES, repeats, transfer) + noise * chance
    return Setting("made up", tuple("abcd"), SIZES, exposures, chrf, np.exp(-chrf / 30))


@pytest.mark.parametrize(("repeats", "transfer"), [(8, 0.05), (15, 0.1), (30, 0.0)])
def test_constants_are_found_again(repeats, transfer):
    law = fit(made_up(repeats, transfer), made_up(repeats, transfer).chrf, noise=0.01)
    assert law.constants() == pytest.approx((repeats, transfer), rel=0.02, abs=1e-4)


def test_predictions_are_those_of_the_law():
    setting = made_up(15, 0.1, noise=0.3)
    law = fit(setting, setting.chrf, NOISE["chrf"])
    passes = exposure(setting, *FADING["mix 0.75, fade 15"])
    truth = 30 + 8 * log_data(passes, SIZES, 15, 0.1)
    assert law.predict(passes, SIZES) == pytest.approx(truth, abs=0.5)


def test_exposure_uses_up_the_whole_length():
    setting = made_up(15, 0.1)
    for row in (*FIXED.values(), *FADING.values()):
        assert exposure(setting, *row) @ SIZES == pytest.approx(setting.length * SIZES.sum())
    proportional = exposure(setting, *FIXED["tau 1"])
    assert proportional == pytest.approx(setting.length)
