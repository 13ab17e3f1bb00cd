"""The noise of training: the textbook's analysis of variance where nothing is missing, and what happens where it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind, ttest_rel

from evenglot.comparison.seed_variance import contrast, noisy_rows

ROWS = ("erm", "tau", "chi", "dro")


def table(rows, seeds):
    """The runs of a grid of which nothing is missing."""
    return [(row, seed) for row in rows for seed in seeds]


def means(runs, scores, row):
    return np.mean([score for (name, _), score in zip(runs, scores, strict=True) if name == row])


# ------------------------------------------------------------------------------------------------- nothing missing


@given(st.integers(2, 4), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_it_is_the_textbooks_analysis_of_variance(rows, seeds, random_seed):
    runs = table(ROWS[:rows], range(seeds))
    scores = np.random.default_rng(random_seed).normal(30, 1, (rows, seeds))
    left_over = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    freedom = (rows - 1) * (seeds - 1)
    found = contrast(runs, "tau", "erm")
    assert found.freedom == freedom
    assert found.by_seed
    assert found.difference(scores.ravel()) == pytest.approx(scores[1].mean() - scores[0].mean(), abs=1e-8)
    expected = np.sqrt((left_over**2).sum() / freedom * 2 / seeds)
    assert found.standard_error(scores.ravel()) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("seeds", [2, 3, 6])
def test_of_two_rows_it_is_the_paired_t_test(seeds):
    erm, tau = np.random.default_rng(1).normal(size=(2, seeds))
    found = contrast(table(("erm", "tau"), range(seeds)), "tau", "erm")
    scores = np.concatenate([erm, tau])
    expected = ttest_rel(tau, erm)
    assert found.difference(scores) / found.standard_error(scores) == pytest.approx(expected.statistic, rel=1e-6)
    assert found.freedom == expected.df


def test_twins_do_not_differ_and_a_row_does_not_differ_from_itself():
    runs = table(ROWS, (1, 2, 3))
    scores = np.random.default_rng(2).normal(30, 1, (4, 3))
    scores[1] = scores[0]
    assert contrast(runs, "tau", "erm").difference(scores.ravel()) == 0
    assert contrast(runs, "chi", "chi").difference(scores.ravel()) == 0


def test_scores_of_many_samples_are_judged_at_once():
    runs = table(("erm", "tau"), (1, 2))
    samples = np.random.default_rng(3).normal(size=(7, 4))
    found = contrast(runs, "tau", "erm")
    assert found.difference(samples).tolist() == [float(found.difference(sample)) for sample in samples]


# ------------------------------------------------------------------------------------------------- runs are missing


@given(st.sets(st.tuples(st.sampled_from(ROWS), st.integers(1, 4)), min_size=2), st.integers(0, 2**32 - 1))
def test_what_rows_and_seeds_do_is_found_exactly_where_there_is_no_noise(runs, random_seed):
    runs = sorted(runs)
    random = np.random.default_rng(random_seed)
    of_row, of_seed = ({key: random.normal() for key in {run[place] for run in runs}} for place in (0, 1))
    scores = np.array([of_row[row] + of_seed[seed] for row, seed in runs])
    row, reference = runs[0][0], runs[-1][0]
    found = contrast(runs, row, reference)
    if found.by_seed:
        assert found.difference(scores) == pytest.approx(of_row[row] - of_row[reference], abs=1e-8)
        assert found.standard_error(scores) == pytest.approx(0, abs=1e-8)
    else:
        assert found.difference(scores) == pytest.approx(means(runs, scores, row) - means(runs, scores, reference))


def test_a_row_with_one_seed_is_judged_by_the_noise_of_the_others():
    runs = [*table(("erm", "tau"), (1, 2, 3)), ("chi", 2)]
    found = contrast(runs, "chi", "erm")
    assert found.freedom == 2  # as without it
    scores = np.array([30, 31, 32, 31, 32.5, 32.5, 32])
    alone = contrast(runs[:-1], "tau", "erm")
    noise = alone.standard_error(scores[:-1]) / np.linalg.norm(alone.weights)
    assert found.standard_error(scores) == pytest.approx(noise * np.linalg.norm(found.weights))
    assert np.linalg.norm(found.weights) > np.linalg.norm(alone.weights)


def test_one_run_of_each_tells_nothing_of_noise():
    found = contrast([("erm", 1), ("tau", 1)], "tau", "erm")
    assert (found.freedom, found.standard_error(np.array([1.0, 2.0]))) == (0, 0.0)
    assert found.difference(np.array([1.0, 3.0])) == 2


def test_without_a_seed_in_common_it_is_the_t_test_of_independent_samples():
    runs = [("erm", 1), ("erm", 2), ("erm", 3), ("tau", 4), ("tau", 5)]
    scores = np.array([1.0, 2.0, 4.0, 5.0, 3.5])
    found = contrast(runs, "tau", "erm")
    expected = ttest_ind(scores[3:], scores[:3])
    assert not found.by_seed
    assert found.freedom == expected.df
    assert found.difference(scores) / found.standard_error(scores) == pytest.approx(expected.statistic)


def test_seeds_may_be_shared_by_way_of_another_row():
    runs = [("erm", 1), *table(("tau", "dro"), (1, 2)), ("chi", 2)]
    found = contrast(runs, "chi", "erm")
    assert (found.by_seed, found.freedom) == (True, 1)
    scores = np.array([0.0, 1.0, 11.0, 4.0, 14.0, 13.0])  # the second seed is better by 10
    assert found.difference(scores) == pytest.approx(3)


@pytest.mark.parametrize(
    ("erm", "chi"), [((1, 2), (2, 3)), ((1,), (1, 2, 3)), ((1, 2, 3, 4, 5), (1,)), ((1, 2, 3), (4,))]
)
def test_where_shared_seeds_leave_nothing_to_tell_of_noise_what_seeds_do_is_noise(erm, chi):
    """And no run is ignored: paired, the difference would be that of the one seed in common."""
    runs = [*(("erm", seed) for seed in erm), *(("chi", seed) for seed in chi)]
    scores = np.random.default_rng(8).normal(size=len(runs))
    found = contrast(runs, "chi", "erm")
    expected = ttest_ind(scores[len(erm) :], scores[: len(erm)])
    assert not found.by_seed
    assert found.freedom == expected.df == len(runs) - 2
    assert found.difference(scores) / found.standard_error(scores) == pytest.approx(expected.statistic, rel=1e-6)


def test_without_a_seed_in_common_others_tell_of_noise_only_if_the_two_cannot():
    """Rows that share their seeds are lucky together: as many runs as they have, they know less."""
    others = table(("tau", "dro", "all"), (1, 2, 3))
    assert contrast([*others, *table(("erm",), (1, 2, 3)), *table(("chi",), (4, 5))], "chi", "erm").freedom == 3
    alone = contrast([*others, ("erm", 7), ("chi", 8)], "chi", "erm")
    assert (alone.freedom, alone.by_seed) == (6, False)


# ------------------------------------------------------------------------------------------------- noisy rows


def simulated(random, wild=1.0, seeds=3, directions=8, together=0.0):
    """Eight rows, the first of which is so many times as noisy; seeds do something, too.

    `together`: the correlation of directions. A lucky run is lucky in many of them.
    """
    own, common = random.normal(size=(8, seeds, directions)), random.normal(size=(8, seeds, 1))
    noise = (1 - together) ** 0.5 * own + together**0.5 * common + 2 * random.normal(size=(seeds, directions))
    noise[0] *= wild
    return table("abcdefgh", range(seeds)), noise.reshape(-1, directions)


@pytest.mark.parametrize("together", [0.0, 0.5, 0.9])
def test_rows_that_are_alike_are_hardly_ever_called_noisy(together):
    random = np.random.default_rng(4)
    called = sum(bool(noisy_rows(*simulated(random, together=together))) for _ in range(100))
    assert called <= 4  # one is to be expected


def test_a_noisy_row_is_found_and_no_other():
    random = np.random.default_rng(5)
    assert all(noisy_rows(*simulated(random, wild=4)) == ["a"] for _ in range(10))


def test_of_two_rows_nobody_can_tell_which_is_the_noisy_one():
    runs, scores = simulated(np.random.default_rng(6), wild=9)
    two = [place for place, (row, _) in enumerate(runs) if row in "ab"]
    assert noisy_rows([runs[place] for place in two], scores[two]) == []


@pytest.mark.parametrize("value", [0.0, 30.0])
def test_runs_without_any_noise_are_alike(value):
    runs, scores = simulated(np.random.default_rng(7))
    assert noisy_rows(runs, np.full_like(scores, value)) == []
