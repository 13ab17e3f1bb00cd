from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenglot.batches.draw import draw
from evenglot.batches.fit import fit
from evenglot.batches.pack import pack
from tests.batches.cases import SEEDS

WANTED = st.integers(1, 300)
GUESSES = st.integers(1, 100_000)


@st.composite
def steps(draw, jumps=1):
    """The number of batches that 1, 2, 3, ... pairs fill: it never falls, and rises by at most `jumps` at once."""
    rise = draw(st.lists(st.integers(0, jumps), min_size=1, max_size=30))
    cycle = np.cumsum([*rise, 1])  # repeated for ever
    start = draw(st.integers(1, jumps))
    return lambda pairs: int(start + (pairs - 1) // len(cycle) * cycle[-1] + (0, *cycle)[(pairs - 1) % len(cycle)])


@given(steps(), WANTED, GUESSES)
def test_a_number_of_pairs_that_fills_the_batches_is_found_from_any_guess(count, wanted, guess):
    assert count(fit(wanted, guess, count)) == wanted


@given(steps(jumps=5), WANTED, GUESSES)
def test_if_there_is_none_fewer_batches_are_filled_and_one_pair_more_would_be_too_much(count, wanted, guess):
    found = fit(wanted, guess, count)
    if count(found) != wanted:
        assert count(found) < wanted < count(found + 1) or (found == 1 and count(1) > wanted)


@given(steps(jumps=5), WANTED, GUESSES, st.integers(1, 2000))
def test_a_limit_on_the_pairs_holds_and_matters_only_if_it_is_reached(count, wanted, guess, most):
    found = fit(wanted, guess, count, most)
    assert found <= most
    if count(most) < wanted:
        assert found == most
    else:
        assert (count(found) == wanted) == (count(fit(wanted, guess, count)) == wanted)


@given(SEEDS, st.integers(1, 40), st.integers(1, 4), st.floats(0.02, 0.98))
def test_intervals_of_real_batches_have_exactly_so_many_updates(seed, updates, micro_batches, share):
    """And together they use every pair of a corpus once before any twice, as all intervals do."""
    lengths = np.random.default_rng(seed).integers(2, 60, (2, 2, 300), dtype=np.int32)
    sizes, q, before = {"a": 300, "b": 300}, {"a": share, "b": 1 - share}, {"a": 0, "b": 0}
    used = np.zeros((2, 300), dtype=int)
    wanted = updates * micro_batches
    for interval in range(3):
        drawn = partial(draw, sizes, q, seed=seed, interval=interval, drawn_before=dict(before))

        def plan(pairs, drawn=drawn, interval=interval):
            rows = drawn(pairs=pairs)
            source, target = lengths[:, rows.direction, rows.pair]
            return pack(source, target, budget=600, seed=seed, interval=interval, micro_batches=micro_batches)

        pairs = fit(wanted, 20 * wanted, lambda pairs, plan=plan: plan(pairs).batches)
        assert (len(plan(pairs)), plan(pairs).batches) == (updates, wanted)
        rows = drawn(pairs=pairs)
        np.add.at(used, (rows.direction, rows.pair), 1)
        before = {name: before[name] + count for name, count in rows.counts.items()}
    assert (used.max(axis=1) - used.min(axis=1)).max() <= 1
