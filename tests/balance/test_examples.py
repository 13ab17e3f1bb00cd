"""FastDRO: weights inside a batch."""

import numpy as np
import pytest

from evenglot.balance import create
from evenglot.robust import chi_square_weights, cvar_weights

SIZES = {"aze-en": 10, "tur-en": 90}
NAMES = ["tur-en", "aze-en", "tur-en", "tur-en"]
LOSSES = np.array([2.0, 5.0, 3.0, 1.0])


def test_the_mixture_is_that_of_the_data_and_stays():
    balancer = create("fastdro", SIZES, rho=0.5)
    balancer.example_weights(LOSSES, NAMES)
    balancer.observe({"aze-en": 9.0}, {"aze-en": 1})
    assert not balancer.update()
    assert balancer.weighs_examples
    assert balancer.mixture.sample == pytest.approx({"aze-en": 0.1, "tur-en": 0.9})
    assert balancer.mixture.loss is None


def test_weights_are_those_of_the_batch_after_taking_off_the_baseline():
    plain, against = (
        create("fastdro", SIZES, rho=0.5),
        create("fastdro", SIZES, rho=0.5, baseline={"aze-en": 4, "tur-en": 1}),
    )
    assert plain.example_weights(LOSSES, NAMES) == pytest.approx(chi_square_weights(LOSSES, 0.5))
    assert against.example_weights(LOSSES, NAMES) == pytest.approx(chi_square_weights(LOSSES - [1, 4, 1, 1], 0.5))


def test_a_level_makes_it_cvar():
    balancer = create("fastdro", SIZES, alpha=0.5)
    assert balancer.example_weights(LOSSES, NAMES) == pytest.approx([0, 0.5, 0.5, 0])
    smooth = create("fastdro", SIZES, alpha=0.5, penalty=0.3)
    assert smooth.example_weights(LOSSES, NAMES) == pytest.approx(cvar_weights(LOSSES, 0.5, 0.3))


def test_other_strategies_weigh_all_examples_equally():
    balancer = create("uniform", SIZES)
    assert not balancer.weighs_examples
    assert balancer.example_weights(LOSSES, NAMES) == pytest.approx(np.full(4, 0.25))


def test_as_many_losses_as_examples_are_needed():
    with pytest.raises(ValueError, match="^losses: "):
        create("fastdro", SIZES).example_weights(LOSSES[:2], NAMES)
