"""Problems for the tests of robust/: all kinds of sets, and hypothesis strategies for p, v and rho, also hard ones."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from evenglot.robust import ChiSquareBall, CVaR, KLBall, Simplex, Singleton, UncertaintySet

Shape = Callable[[np.ndarray, float], UncertaintySet]


def share(p):
    """p, divided by its sum."""
    return Singleton(p).p


# Every set, given the centre p and one number for its size: 0 is {p}, unless the shape has no such size.
SHAPES: dict[str, Shape] = {
    "singleton": lambda p, rho: Singleton(p),
    "simplex": lambda p, rho: Simplex(len(p)),
    "kl": lambda p, rho: KLBall(p, rho),
    "chi-square": lambda p, rho: ChiSquareBall(p, rho),
    "chi-square with floor": lambda p, rho: ChiSquareBall(p, rho, floor=0.2),
    "chi-square with caps": lambda p, rho: ChiSquareBall(p, rho, upper=1.5 * share(p)),
    "chi-square with floor and caps": lambda p, rho: ChiSquareBall(p, rho, floor=0.2, upper=3 * share(p)),
    "cvar": lambda p, rho: CVaR(p, 1 / (1 + rho)),
    "cvar with floor": lambda p, rho: CVaR(p, 1 / (1 + rho), floor=0.2),
    "cvar with floor and caps": lambda p, rho: CVaR(p, 1 / (1 + rho), floor=0.2, upper=3 * share(p)),
}
WITH_PROJECTION = [name for name in SHAPES if name != "kl"]
WITH_CENTRE_ORDER = [name for name in SHAPES if "caps" not in name and name not in ("singleton", "simplex")]


def assert_answer(uncertainty: UncertaintySet, q: np.ndarray) -> None:
    """Check a result: a finite distribution in the set, with share 0 for groups whose p is 0."""
    assert np.isfinite(q).all()
    assert (q >= 0).all()
    assert abs(q.sum() - 1) <= 1e-12
    assert (q[uncertainty.p == 0] == 0).all()
    assert uncertainty.contains(q)


# ------------------------------------------------------------------------------------------------ strategies


def powers_of_ten(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def vectors(elements: st.SearchStrategy[float], m: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(elements, min_size=m, max_size=m).map(np.array)


def centres(m: int) -> st.SearchStrategy[np.ndarray]:
    """Shares that are equal or span a few or hundreds of orders of magnitude, some of them 0; not normalised."""
    share_of_group = st.one_of(st.just(1.0), powers_of_ten(-3, 0), powers_of_ten(-300, 2), st.just(0.0))
    return vectors(share_of_group, m).filter(lambda p: p.any())


def values(m: int) -> st.SearchStrategy[np.ndarray]:
    """Ordinary values, ties, values 1e-12 apart, offsets that dwarf the differences, scales from 1e-300 to 1e300."""
    return st.one_of(
        vectors(st.floats(-5, 5), m),
        vectors(st.integers(-2, 2).map(float), m),
        vectors(st.integers(-3, 3).map(lambda k: 3 + 1e-12 * k), m),
        vectors(st.floats(-1, 1).map(lambda x: 1e6 + x), m),
        vectors(st.tuples(st.floats(-1, 1), powers_of_ten(-300, 300)).map(np.prod), m),
    )


radii = st.one_of(st.just(0.0), st.floats(1e-3, 5), powers_of_ten(-18, -3), powers_of_ten(0, 12))


@st.composite
def problems(draw: st.DrawFn, radius: st.SearchStrategy[float] = radii) -> tuple[np.ndarray, np.ndarray, float]:
    """(p, v, rho) for one to eight groups."""
    m = draw(st.integers(1, 8))
    return draw(centres(m)), draw(values(m)), draw(radius)


@st.composite
def plain_problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float]:
    """(p, v, rho) at ordinary scales, where less accurate references still agree; values are multiples of 1/64."""
    m = draw(st.integers(2, 8))
    p = draw(vectors(powers_of_ten(-3, 0), m))
    v = draw(vectors(st.integers(-256, 256).map(lambda k: k / 64), m))
    return p, v, draw(st.floats(1e-3, 5))
