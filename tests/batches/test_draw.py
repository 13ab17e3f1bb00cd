import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.batches.draw import RecentOrders, draw, exact_counts, interval_counts, released_interval_counts
from evenglot.seeding import generator
from tests.batches.cases import SEEDS, corpora, mixtures
from tests.golden_cases import golden


@pytest.mark.parametrize("case", golden("epoch_counts"))
def test_golden_counts(case):
    expected = case["expected"]
    counts = interval_counts(case["sizes"], case["q"])
    assert counts.tolist() == expected["ceil_counts"]
    assert counts.sum() == expected["ceil_total"]
    for cap in (1, 1.5):
        counts, left_over = released_interval_counts(case["sizes"], case["q"], cap)
        released = expected[f"released_cap_{cap}"]
        assert counts.tolist() == released["floor_counts"]
        assert left_over == released["random_remainder"]
        assert counts.sum() + left_over == released["epoch_size"]


@given(st.integers(1, 10**9), st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any), SEEDS)
def test_exact_counts_sum_to_the_pairs_and_are_off_by_less_than_one(pairs, shares, seed):
    counts, q = exact_counts(pairs, shares, seed, 0), np.array(shares) / sum(shares)
    assert counts.sum() == pairs
    assert (np.abs(counts - pairs * q) < 1 + 1e-6).all()
    assert (counts[q == 0] == 0).all()


def test_exact_counts_are_right_on_average():
    q = np.array([0.9985, 0.001, 0.0005])
    mean = np.mean([exact_counts(100, q, 1, interval) for interval in range(4000)], axis=0)
    np.testing.assert_allclose(mean, 100 * q, atol=4 * 0.5 / np.sqrt(4000))


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=20), st.data())
def test_an_interval_is_as_long_as_the_data_and_no_group_with_a_share_is_left_out(sizes, data):
    shares = data.draw(st.lists(st.integers(0, 1000), min_size=len(sizes), max_size=len(sizes)).filter(any))
    counts = interval_counts(sizes, shares)
    total = sum(sizes)
    assert total <= counts.sum() <= total + len(sizes)
    q = np.array(shares) / sum(shares)
    assert (np.abs(counts - total * q) < 1 + 1e-6).all()
    assert (counts[q * total > 1e-6] > 0).all()


def test_the_released_rule_survives_a_largest_corpus_that_is_not_drawn():
    counts, left_over = released_interval_counts([100, 10], [0.0, 1.0])
    assert counts.tolist() == [0, 165]
    assert left_over == 0


@pytest.mark.parametrize("q", [[0.5], [0.5, np.nan], [-0.5, 1.5]])
def test_a_bad_mixture_is_refused(q):
    with pytest.raises(ValueError, match=r"^q:"):
        interval_counts([10, 20], q)


@given(corpora(), SEEDS, st.none() | st.integers(1, 300), st.data())
def test_an_interval_has_the_counts_of_q_and_uses_a_corpus_evenly_wherever_it_starts(case, seed, pairs, data):
    sizes, q = case
    before = {name: data.draw(st.integers(0, 10**12)) for name in sizes}
    interval = draw(sizes, q, seed=seed, interval=3, drawn_before=before, pairs=pairs)
    length = sum(sizes.values()) if pairs is None else pairs
    for name, uses in uses_of(interval, sizes).items():
        count = interval.counts[name]
        assert abs(count - length * q[name]) < 1 + 1e-6
        assert count // sizes[name] <= uses.min()
        assert uses.max() <= -(-count // sizes[name])


@given(corpora(), SEEDS, st.data())
def test_every_pair_is_seen_before_any_is_seen_again_while_the_mixture_changes(case, seed, data):
    sizes, q = case
    before = dict.fromkeys(sizes, 0)
    seen = {name: np.zeros(size, dtype=int) for name, size in sizes.items()}
    for number in range(4):
        interval = draw(sizes, q, seed=seed, interval=number, drawn_before=before)
        for name, uses in uses_of(interval, sizes).items():
            seen[name] += uses
            before[name] += interval.counts[name]
            assert seen[name].max() - seen[name].min() <= 1
        q = data.draw(mixtures(list(sizes)))


@given(corpora(), SEEDS, st.sampled_from(["cycle", "released"]))
def test_a_draw_depends_on_names_and_seed_and_not_on_the_order_of_names(case, seed, rule):
    sizes, q = case
    reverse = dict(reversed(sizes.items()))
    first, second = (draw(order, q, seed=seed, interval=1, rule=rule) for order in (sizes, reverse))
    assert first.names == second.names == tuple(sorted(sizes))
    assert first.direction.tolist() == second.direction.tolist()
    assert first.pair.tolist() == second.pair.tolist()


def test_a_corpus_is_drawn_in_the_same_order_whatever_the_other_corpora_are():
    alone = draw({"b": 50}, {"b": 1}, seed=1, interval=0, pairs=20)
    among = draw({"a": 9, "b": 50, "c": 7}, {"a": 1, "b": 2, "c": 1}, seed=1, interval=0, pairs=40)
    assert sorted(alone.pair) == sorted(among.pair[among.direction == among.names.index("b")])


def test_seed_interval_and_position_change_what_is_drawn_and_its_order():
    sizes, q = {"a": 500, "b": 500}, {"a": 0.3, "b": 0.7}
    options = [{"seed": 1, "interval": 0}, {"seed": 2, "interval": 0}, {"seed": 1, "interval": 1}]
    options.append({"seed": 1, "interval": 0, "drawn_before": {"a": 100, "b": 0}})
    options += [{**option, "rule": "released"} for option in options[:3]]
    drawn = {tuple(zip(i.direction, i.pair, strict=True)) for i in (draw(sizes, q, **option) for option in options)}
    assert len(drawn) == len(options)


def test_a_draw_is_the_same_in_every_process():
    program = "from evenglot.batches.draw import draw; i = draw({'a': 9, 'b': 5}, {'a': 1, 'b': 3}, seed=7, interval=2)"
    printed = {
        subprocess.run(
            [sys.executable, "-c", f"{program}; print(i.direction.tolist(), i.pair.tolist())"],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in "12"
    }
    here = draw({"a": 9, "b": 5}, {"a": 1, "b": 3}, seed=7, interval=2)
    assert printed == {f"{here.direction.tolist()} {here.pair.tolist()}\n"}


def test_languages_are_mixed_along_the_interval():
    interval = draw({"a": 5000, "b": 5000}, {"a": 0.5, "b": 0.5}, seed=1, interval=0)
    shares = interval.direction.reshape(10, -1).mean(axis=1)
    assert (abs(shares - 0.5) < 0.1).all()


@given(corpora(), SEEDS, st.floats(0.5, 2))
def test_the_released_rule_draws_without_replacement_while_a_corpus_lasts(case, seed, cap):
    sizes, q = case
    interval = draw(sizes, q, seed=seed, interval=0, rule="released", max_scale_up=cap)
    names = sorted(sizes)
    counts, left_over = released_interval_counts([sizes[n] for n in names], [q[n] for n in names], cap)
    assert len(interval) == counts.sum() + left_over
    for name, count in zip(names, counts, strict=True):
        assert count <= interval.counts[name] <= (count + left_over if q[name] else 0)
        assert interval.counts[name] > sizes[name] or uses_of(interval, sizes)[name].max() <= 1


def test_the_released_rule_misses_pairs_of_an_oversampled_corpus_as_often_as_chance_does():
    sizes = {"a": 1000, "b": 1001}
    interval = draw(sizes, {"a": 1, "b": 0}, seed=1, interval=0, rule="released")
    assert interval.counts == {"a": 3001, "b": 0}
    missed = (uses_of(interval, sizes)["a"] == 0).mean()
    assert missed == pytest.approx(np.exp(-3.001), abs=0.02)  # expected with replacement


@given(corpora(), SEEDS)
def test_take_finds_what_belongs_to_each_row(case, seed):
    sizes, q = case
    interval = draw(sizes, q, seed=seed, interval=0)
    first = dict(zip(interval.names, range(0, 10**6, 1000), strict=False))
    found = interval.take(lambda name, pairs: np.stack([first[name] + pairs, -pairs]))
    rows = zip(interval.direction, interval.pair, strict=True)
    assert found.T.tolist() == [[first[interval.names[d]] + pair, -pair] for d, pair in rows]


def test_take_looks_at_drawn_pairs_only():
    interval = draw({"a": 10**6, "b": 10**6, "c": 10**6}, {"a": 0.5, "b": 0.5, "c": 0}, seed=1, interval=0, pairs=20)
    asked = {}
    interval.take(lambda name, pairs: asked.setdefault(name, pairs))
    assert {name: len(pairs) for name, pairs in asked.items()} == {"a": 10, "b": 10}


@given(st.integers(1, 70_000), SEEDS, st.sampled_from(["a", "b"]))
def test_a_remembered_order_is_the_permutation_that_was_always_drawn(size, seed, name):
    orders = RecentOrders(limit=10**6)
    expected = generator(seed, "draw", name).permutation(size).tolist()
    assert orders.find((seed, name, size)).tolist() == orders.find((seed, name, size)).tolist() == expected


def test_orders_are_remembered_within_a_limit():
    orders = RecentOrders(limit=1000)
    first = orders.find((1, "a", 200))
    assert orders.find((1, "a", 200)) is first
    orders.find((1, "b", 200))
    orders.find((1, "a", 200))
    orders.find((1, "c", 301))  # two bytes a pair
    assert orders.size == 802
    assert orders.find((1, "a", 200)) is first  # b was used less recently
    assert len(orders.find((1, "d", 5000))) == 5000  # too large to remember
    assert orders.size == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": {"a": 1}}, "^q: .*a, b; .*a$"),
        ({"q": {"a": -1, "b": 2}}, "^q:"),
        ({"sizes": {"a": 0, "b": 3}}, "^q: .*'a'"),
        ({"drawn_before": {"c": 1}}, "^drawn_before:"),
        ({"pairs": 0}, "^pairs:"),
        ({"rule": "unknown"}, "^rule:"),
        ({"rule": "released", "pairs": 3}, "^rule:"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {"sizes": {"a": 5, "b": 3}, "q": {"a": 0.5, "b": 0.5}, "seed": 1, "interval": 0, **change}
    with pytest.raises(ValueError, match=message):
        draw(**arguments)


def test_an_empty_corpus_without_a_share_is_left_alone():
    for rule in ("cycle", "released"):
        assert draw({"a": 0, "b": 3}, {"a": 0, "b": 1}, seed=1, interval=0, rule=rule).counts["a"] == 0


def uses_of(interval, sizes):
    """How often each pair of each corpus occurs in the interval; fails if a pair is outside its corpus."""
    result = {}
    for position, name in enumerate(interval.names):
        pairs = interval.pair[interval.direction == position]
        assert ((pairs >= 0) & (pairs < sizes[name])).all()
        result[name] = np.bincount(pairs, minlength=sizes[name])
    return result
