"""The bootstrap: sacreBLEU's samples with one seed, the laws it must keep, and how often it cries wolf."""

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, _bootstrap_resample
from scipy.stats import false_discovery_control, ttest_rel
from scipy.stats import t as student

from evenglot.comparison.bootstrap import (
    ALPHA,
    SEED,
    Difference,
    difference,
    drawn_errors,
    drawn_sentences,
    holm,
    judged,
    sampled_scores,
    samples_for,
    sentences_of,
)
from evenglot.comparison.seed_variance import contrast
from evenglot.scoring.metrics import METRICS, Metric
from evenglot.scoring.scorer import Scorer

SENTENCES, SAMPLES = 40, 300
SACREBLEU = {"bleu": BLEU(), "chrf": CHRF(word_order=2)}
MEAN = Metric("mean", "mean", True, 2, lambda counts: counts[..., 0] / counts[..., 1])


def corpus(noise, seed):
    """References, and two systems that get words wrong, one a little more often."""
    random = np.random.default_rng(seed)
    words = [first + second for first in "bdfgk" for second in ("an", "el", "imo", "us")]
    references = [list(random.choice(words, random.integers(4, 12))) for _ in range(SENTENCES)]
    systems = [
        [" ".join(w if random.random() > rate else str(random.choice(words)) for w in line) for line in references]
        for rate in (0.3, 0.3 + noise)
    ]
    return [" ".join(line) for line in references], systems


def ones(values):
    """Sentences whose mean is the score."""
    return np.stack([values, np.ones_like(values)], axis=-1)


def compared(left, right, sentences, *others):
    """The difference of two systems with some runs each; others only tell how noisy training is."""
    systems = (left, right, *others)
    runs = [(str(system), seed) for system, each in enumerate(systems) for seed in range(len(each))]
    counts = [run for each in systems for run in each]
    observed = np.array([MEAN.score(run.sum(0)) for run in counts])
    sampled = np.stack([sampled_scores(MEAN, run, sentences) for run in counts], axis=-1)
    return difference(contrast(runs, "0", "1"), observed, sampled)


# ------------------------------------------------------------------------------------------ sacreBLEU's, with one seed


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_with_one_seed_the_samples_are_sacrebleus(metric):
    references, (system, _) = corpus(0.1, seed=1)
    counts = Scorer().score(system, references).counts[metric]
    mine = sampled_scores(METRICS[metric], counts, drawn_sentences(SENTENCES, SAMPLES, SEED))
    _, theirs = _bootstrap_resample(counts.tolist(), SACREBLEU[metric], SAMPLES)
    assert mine == pytest.approx([score.score for score in theirs], rel=1e-5)  # they compute in single precision
    assert mine.std() > 0.5


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
@pytest.mark.parametrize("noise", [0.0, 0.03, 0.06, 0.1])
def test_so_is_the_p_that_follows_by_their_formula(metric, noise):
    """Theirs: how often |d_b| - mean |d_b| > |d|. Ours: how often |d_b - mean d_b| >= |d|.

    Where all samples have the same sign, theirs is the upper tail alone, and ours both: about twice as large.
    """
    references, (base, system) = corpus(noise, seed=2)
    test = PairedTest(
        [("base", base), ("system", system)], {metric: SACREBLEU[metric]}, [references], "bs", n_samples=SAMPLES
    )
    _, scores = test()
    (name,) = set(scores) - {"System"}
    theirs = scores[name][1]

    sentences = drawn_sentences(SENTENCES, SAMPLES, SEED)
    sampled, observed = [], []
    for hypotheses in (base, system):
        counts = Scorer().score(hypotheses, references).counts[metric]
        sampled.append(sampled_scores(METRICS[metric], counts, sentences))
        observed.append(float(METRICS[metric].score(counts.sum(0, dtype=float))))
    found = judged(observed[1] - observed[0], sampled[1] - sampled[0])
    sizes = np.abs(sampled[1] - sampled[0])
    by_their_formula = (np.sum(sizes - sizes.mean() > abs(found.difference)) + 1) / (SAMPLES + 1)
    assert by_their_formula == theirs.p_value
    assert found.p >= theirs.p_value
    assert sampled[1].mean() == pytest.approx(theirs.mean, rel=1e-5)


def test_samples_draw_as_many_sentences_as_there_are():
    drawn = drawn_sentences(17, 50)
    assert drawn.shape == (50, 17)
    assert set(drawn.sum(axis=1)) == {17}
    assert (drawn > 1).any()


def test_directions_are_drawn_independently_and_the_same_every_time():
    first, again, second = (np.concatenate(list(sentences_of(name, 30, 20))) for name in ("aa-en", "aa-en", "bb-en"))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, again)


def test_samples_drawn_in_blocks_are_those_drawn_at_once():
    sentences, samples = 1001, 600  # not a multiple of a block
    blocks = list(sentences_of("aa-en", sentences, samples))
    assert len(blocks) > 2
    at_once = drawn_sentences(sentences, samples, [SEED, crc32(b"aa-en")])
    assert np.array_equal(np.concatenate(blocks), at_once)


# ----------------------------------------------------------------------------------------------------------- laws

VALUES = st.lists(st.floats(-10, 10), min_size=20, max_size=20).map(np.array)
RUNS = st.lists(VALUES, min_size=1, max_size=3)
DRAWN = drawn_sentences(20, 200)
# Differences and standard errors are rounded to 1e-9, up here and down there: ends of intervals move by three such
# steps (the observed difference, a sampled one, their median), and by one times Student's t for two seeds, 12.7.
A_STEP, SOME_STEPS = 1.01e-9, 16e-9


@given(RUNS)
def test_a_system_does_not_differ_from_itself(runs):
    found = compared([ones(run) for run in runs], [ones(run) for run in runs], DRAWN)
    assert (found.difference, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


@given(VALUES, VALUES)
def test_a_run_that_is_given_twice_tells_nothing_new(left, right):
    """Crossed, not pooled: all seeds share the drawn sentences, so twins do not halve the variance."""
    once = compared([ones(left)], [ones(right)], DRAWN)
    twice = compared([ones(left)] * 2, [ones(right)] * 2, DRAWN)
    assert twice.interval == pytest.approx(once.interval, abs=SOME_STEPS)
    assert twice.difference == pytest.approx(once.difference, abs=A_STEP)


@given(RUNS, st.data())
def test_the_other_way_round_the_interval_is_mirrored(left, data):
    right = data.draw(st.lists(VALUES, min_size=len(left), max_size=len(left)))
    there = compared([ones(run) for run in left], [ones(run) for run in right], DRAWN)
    back = compared([ones(run) for run in right], [ones(run) for run in left], DRAWN)
    assert back.difference == pytest.approx(-there.difference, abs=A_STEP)
    assert back.interval == pytest.approx((-there.interval[1], -there.interval[0]), abs=SOME_STEPS)
    assert back.p == pytest.approx(there.p, abs=2 / 201)  # rounding may decide a tie


@given(RUNS, RUNS)
def test_p_is_a_probability_that_is_never_0(left, right):
    found = compared([ones(run) for run in left], [ones(run) for run in right], DRAWN)
    assert 0 < found.p <= 1
    assert found.interval[0] <= found.difference <= found.interval[1]


@given(st.floats(-3, 3), st.integers(20, 400), st.integers(0, 2**32 - 1))
def test_the_interval_leaves_out_0_just_where_p_is_below_a_twentieth(observed, samples, random_seed):
    found = judged(observed, observed + np.random.default_rng(random_seed).exponential(size=samples))
    low, high = found.interval
    assert (low > 0 or high < 0) == (found.p < ALPHA)


def test_seeds_that_differ_widen_the_interval():
    random = np.random.default_rng(3)
    base, system = random.normal(size=(2, 20))

    def width(spread):
        low, high = compared([ones(system + shift) for shift in (-spread, 0, spread)], [ones(base)] * 3, DRAWN).interval
        return high - low

    assert width(0) < width(0.3) < width(1.0)
    assert width(1.0) > 4  # by Student's t, 2 * 4.3 / sqrt(3)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_where_only_training_is_noisy_it_is_the_paired_t_test(seeds):
    """Sentences that are all alike: drawing them anew changes nothing."""
    base, gains = np.random.default_rng(6).normal(size=(2, seeds))
    system = base + gains + 0.8
    found = compared(
        *([ones(np.full(5, score)) for score in each] for each in (system, base)), drawn_sentences(5, 2000)
    )
    expected = ttest_rel(system, base)
    assert found.interval == pytest.approx(expected.confidence_interval(), rel=0.02)
    assert found.p == pytest.approx(expected.pvalue, abs=0.01)


@pytest.mark.parametrize("freedom", [1, 2, 6, 30])
def test_errors_are_those_of_students_t(freedom):
    errors = drawn_errors(freedom, 200).ravel()
    levels = np.array([0.025, 0.2, 0.5, 0.8, 0.975])
    assert np.quantile(errors, levels) == pytest.approx(student.ppf(levels, freedom), rel=0.02, abs=0.01)
    assert errors.sum() == pytest.approx(0, abs=1e-6)
    assert abs(np.corrcoef(np.arange(1000), errors[:1000])[0, 1]) < 0.15  # in no order


def test_there_are_none_where_nothing_is_known_about_training():
    assert not drawn_errors(0, 50).any()


# ------------------------------------------------------------------------------------------------ how often it errs


def findings(seeds, training, *, rows=2, gain=0.0, problems=300, sentences=150):
    """How often p < .05 for the first of some systems, against the second, which are equally good but for its `gain`.

    `training`: how far runs of one system lie apart. Both are in standard errors of a difference on the test set.
    """
    random = np.random.default_rng(4)
    drawn = drawn_sentences(sentences, 200)
    of_test = 1 / sentences**0.5  # systems differ by 1 from sentence to sentence, runs as well
    found = 0
    for _ in range(problems):
        easy = random.normal(size=sentences)
        systems = [
            [
                ones(easy + (own + random.normal(size=sentences)) / 2 + training * of_test * random.normal())
                for _ in range(seeds)
            ]
            for own in random.normal(size=(rows, sentences))
        ]
        systems[0] = [ones(run[:, 0] + gain * of_test) for run in systems[0]]
        found += compared(*systems[:2], drawn, *systems[2:]).p < 0.05
    return found / problems


def test_one_in_twenty_equal_systems_seems_different():
    assert 0.02 <= findings(seeds=1, training=0) <= 0.085


@pytest.mark.parametrize(("rows", "seeds"), [(2, 2), (2, 3), (2, 5), (8, 2), (8, 3)])
@pytest.mark.parametrize("training", [0.5, 3])
def test_not_more_with_several_seeds_however_noisy_training_is(rows, seeds, training):
    assert findings(seeds, training, rows=rows, sentences=50) <= 0.08  # of 300: five in a hundred, two deviations


def test_more_rows_find_what_two_rows_overlook():
    few, many = (findings(3, training=2, gain=5, rows=rows, problems=100, sentences=50) for rows in (2, 8))
    assert many > 1.5 * few


def test_with_one_seed_noise_of_training_is_taken_for_a_difference():
    """Why `compare` warns of one seed."""
    assert findings(seeds=1, training=2) > 0.15


def test_a_difference_that_is_there_is_found():
    random = np.random.default_rng(5)
    base = random.normal(size=150)
    found = compared([ones(base + 0.3 + 0.5 * random.normal(size=150))], [ones(base)], drawn_sentences(150, 1000))
    assert found.p < 0.01
    assert 0 < found.interval[0] < found.difference < found.interval[1]


# ------------------------------------------------------------------------------------------------------------ Holm

FAMILY = st.dictionaries(st.sampled_from("abcdefghijkl"), st.floats(0, 1), min_size=1)


def test_holm_by_hand():
    p = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}
    assert holm(p) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(holm(p)) == list(p)


def test_holm_of_one_and_of_none_changes_nothing():
    assert holm({"a": 0.3}) == {"a": 0.3}
    assert holm({}) == {}


@given(FAMILY)
def test_holm_rejects_what_its_textbook_procedure_rejects(p):
    """Step down: compare the smallest with alpha / m, the next with alpha / (m - 1); stop at the first that fails."""
    for alpha in (0.01, 0.05, 0.2):
        rejected = set()
        for rank, name in enumerate(sorted(p, key=p.__getitem__)):
            if p[name] * (len(p) - rank) > alpha:
                break
            rejected.add(name)
        assert {name for name, value in holm(p).items() if value <= alpha} == rejected


@given(FAMILY)
def test_holm_keeps_the_order_and_only_raises(p):
    corrected = holm(p)
    by_size = sorted(p, key=p.__getitem__)
    assert [corrected[name] for name in by_size] == sorted(corrected.values())
    assert all(p[name] <= corrected[name] <= 1 for name in p)
    assert corrected[by_size[0]] == min(1, len(p) * p[by_size[0]])  # as Bonferroni
    discoveries = dict(zip(p, false_discovery_control(list(p.values())), strict=True))
    assert all(corrected[name] >= discoveries[name] - 1e-12 for name in p)  # stricter than Benjamini and Hochberg


@pytest.mark.parametrize("directions", [1, 2, 8, 25, 26, 100, 1000])
def test_there_are_enough_samples_to_find_something_in_every_direction(directions):
    smallest = 1 / (samples_for(directions) + 1)
    assert holm(dict.fromkeys(map(str, range(directions)), smallest))["0"] < 0.05
    assert samples_for(directions) >= 1000


def test_systems_that_never_differ_from_sample_to_sample_say_nothing():
    assert judged(3.0, np.full(1000, 3.0)) == Difference(3.0, (0.0, 3.0), 1.0)
    assert judged(-3.0, np.full(1000, -3.0)).interval == (-3.0, 0.0)


def test_a_sample_without_a_score_is_left_out():
    """One that drew only sentences that the model cannot read has no loss."""
    sampled = np.random.default_rng(7).normal(1, 0.1, 1000)
    with_gaps = np.concatenate([sampled, [np.nan, np.inf]])
    assert judged(1.0, with_gaps) == judged(1.0, sampled)
    assert judged(1.0, np.full(10, np.nan)).p == 1
