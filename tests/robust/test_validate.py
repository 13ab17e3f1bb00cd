import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.robust.validate import OptionError, distribution, number, vector
from tests.robust.problems import centres


def test_vectors_become_float64_and_keep_their_values():
    assert vector([1, 2], "v").dtype == np.float64
    assert (vector(np.array([1, 2], dtype=np.float32), "v", length=2) == [1, 2]).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, float("nan")], r"^v: .*\b1\b.*nan"),
        ([float("-inf"), 1], r"^v: .*\b0\b.*-inf"),
        ([1, 2, 3], r"^v: .*\b2\b.*\b3$"),
        ([[1, 2]], r"^v: .*\(1, 2\)"),
        (["a", "b"], r"^v: .*\['a', 'b'\]"),
    ],
)
def test_what_is_wrong_with_a_vector_is_said(values, message):
    with pytest.raises(ValueError, match=message):
        vector(values, "v", length=2)


@given(weights=st.integers(1, 8).flatmap(centres), exponent=st.integers(-8, 8))
def test_distributions_keep_ratios_and_zeros_at_any_scale(weights, exponent):
    p = distribution(weights)
    assert abs(p.sum() - 1) <= 1e-15
    assert (p[weights == 0] == 0).all()
    assert (distribution(weights * 2.0**exponent) == p).all()
    kept = p > 0
    assert p[kept] * weights.max() == pytest.approx(weights[kept] * p.max(), rel=1e-14)


def test_numbers_know_their_range():
    assert number("0.5", "rho", 0, 1) == 0.5
    assert number(0, "rho", 0) == 0
    for value in (-1e-300, float("nan"), float("inf"), None, "x"):
        with pytest.raises(ValueError, match="^rho: "):
            number(value, "rho", 0)
    with pytest.raises(ValueError, match="^tau: "):
        number(0, "tau", 0, above=True)


def test_an_error_knows_the_argument_it_is_about():
    with pytest.raises(OptionError) as caught:
        number(2.0, "alpha", 0, 1)
    error = caught.value
    assert (error.option, str(error)) == ("alpha", f"alpha: {error.message}")
    again = pickle.loads(pickle.dumps(error))  # between processes
    assert (type(again), again.option, again.message) == (OptionError, error.option, error.message)
