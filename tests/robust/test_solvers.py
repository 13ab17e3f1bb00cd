"""Properties of the solvers that are not visible through the public sets."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenglot.robust import solvers
from tests.robust.problems import powers_of_ten, values, vectors


@st.composite
def levellings(draw):
    """c, x, lower, upper and slope for `share`, at independent scales."""
    m = draw(st.integers(1, 8))
    c = draw(vectors(st.one_of(st.just(1.0), powers_of_ten(-300, 0)), m))
    upper = draw(vectors(st.one_of(st.just(1.0), st.floats(0, 1)), m))
    assume(upper.sum() >= 1)
    lower = upper * draw(vectors(st.one_of(st.just(0.0), st.floats(0, 1)), m)) / m
    return c, draw(values(m)), lower, upper, draw(st.one_of(st.just(1.0), powers_of_ten(-6, 6)))


@given(levelling=levellings())
def test_share_is_one_level_for_all_that_is_not_clipped(levelling):
    c, x, lower, upper, slope = levelling
    q, inside = solvers.share(c, x, lower, upper, slope)
    assert abs(q.sum() - 1) <= 1e-12
    assert ((lower <= q) & (q <= upper)).all()
    assert ((q == lower) | (q == upper) | inside).all()
    # Levels t that are consistent with each coordinate: a single one if it is free, a half-line if it is clipped.
    reach = 1e-9 * (1 / c + slope * np.abs(x))
    level = slope * x - q / c
    at_most, at_least = level[q < upper] - reach[q < upper], level[q > lower] + reach[q > lower]
    assert at_most.max(initial=-np.inf) <= at_least.min(initial=np.inf)


@given(v=st.integers(1, 8).flatmap(values))
def test_scaling_is_exact(v):
    u = solvers.scaled(v)
    assert np.abs(u).max() <= 1
    assert not v.any() or np.abs(u).max() >= 0.5
    normal = np.abs(u) > 1e-290  # smaller values, relative to the largest, may lose precision
    factors = v[normal] / u[normal]
    assert (factors == factors[:1]).all()


@given(target=powers_of_ten(-30, 30), start=powers_of_ten(-20, 20), power=st.floats(0.2, 5))
def test_increasing_root_finds_the_root_from_anywhere(target, start, power):
    def f(x):
        return x**power, power * x**power, np.array([x])

    assert solvers.increasing_root(f, target, start) == pytest.approx([target ** (1 / power)], rel=1e-12)


@pytest.mark.parametrize("slope", [0.0, 1e-9, 1e9, -1.0, np.inf], ids=lambda slope: f"slope {slope}")
def test_increasing_root_survives_wrong_slopes(slope):
    def f(x):
        return x**2, slope, np.array([x])

    assert solvers.increasing_root(f, 2.0, 1e-5) == pytest.approx([np.sqrt(2)], rel=1e-12)


def test_divergences_are_infinite_only_off_the_support():
    p = np.array([0.5, 0.5, 0.0])
    assert solvers.chi_square_divergence(np.array([0.0, 1.0, 0.0]), p) == 0.5
    assert solvers.kl_divergence(np.array([0.0, 1.0, 0.0]), p) == pytest.approx(np.log(2), rel=1e-15)
    assert solvers.chi_square_divergence(np.array([0.5, 0.4, 0.1]), p) == np.inf
    assert solvers.kl_divergence(np.array([0.5, 0.4, 0.1]), p) == np.inf


RESPONSES = """
import numpy as np
from evenglot.robust import ChiSquareBall, KLBall
random = np.random.default_rng(5)
for size in (3, 8, 60):
    p, v = random.dirichlet(np.ones(size)), random.normal(2, 0.3, size)
    for ball in (ChiSquareBall(p, 0.05), ChiSquareBall(p, 0.05, floor=0.2), KLBall(p, 0.05)):
        print(ball.best_response(v).tobytes().hex())
"""


def test_mixtures_do_not_depend_on_the_kernels_of_a_blas_library():
    """OpenBLAS chooses them by processor; this variable overrides it, where NumPy comes with OpenBLAS on x86."""
    answers = {
        subprocess.run(
            [sys.executable, "-c", RESPONSES],
            env={**os.environ, "OPENBLAS_CORETYPE": kernels},
            check=True,
            capture_output=True,
        ).stdout
        for kernels in ("Prescott", "Haswell")
    }
    assert len(answers) == 1
    assert answers != {b""}
