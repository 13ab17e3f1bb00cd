import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance.losses import EMA, IntervalMean, LatestBatch, TokenEMA, TrendlessMean
from tests.golden_cases import golden


def run(estimator, sums, counts):
    for s, c in zip(sums, counts, strict=True):
        estimator.observe(np.array(s, dtype=float), np.array(c, dtype=float))
    return estimator


@pytest.mark.parametrize("start", ["zero", "first", "bias-corrected"])
@pytest.mark.parametrize("case", golden("ema_trace"))
def test_golden_averages(case, start):
    estimator = run(
        EMA(len(case["token_counts"][0]), case["lam"], start), case["token_loss_sums"], case["token_counts"]
    )
    for loss, seen, expected in zip(
        estimator.losses, estimator.seen, case["expected"][start.replace("-", "_")], strict=True
    ):
        if expected is None:
            assert not seen
        else:
            assert loss == pytest.approx(expected, abs=case["tolerance"]["atol"])


@given(st.floats(0.01, 1), st.floats(-5, 5), st.integers(1, 50))
def test_constant_losses_are_recovered_except_when_starting_at_zero(weight, loss, steps):
    observations = [[loss * 7]] * steps, [[7]] * steps
    assert run(EMA(1, weight, "first"), *observations).losses[0] == pytest.approx(loss)
    assert run(EMA(1, weight, "bias-corrected"), *observations).losses[0] == pytest.approx(loss)
    started_at_zero = run(EMA(1, weight, "zero"), *observations).losses[0]
    assert started_at_zero == pytest.approx(loss * (1 - (1 - weight) ** steps))


def test_reset_forgets_at_the_end_of_an_interval():
    estimator = run(EMA(2, reset=True), [[8.0, 0.0]], [[2, 0]])
    assert estimator.seen.tolist() == [True, False]
    estimator.end_interval()
    assert not estimator.seen.any()
    run(estimator, [[6.0, 0.0]], [[2, 0]])
    assert estimator.losses[0] == 3.0


def test_latest_batch_fills_absent_groups_with_their_running_mean():
    estimator = run(LatestBatch(2, weight=0.5), [[4, 8], [2, 0], [6, 0]], [[1, 1], [1, 0], [1, 0]])
    assert estimator.losses.tolist() == [6.0, 8.0]
    run(estimator, [[0, 4]], [[0, 1]])
    assert estimator.losses.tolist() == [4.5, 4.0]  # the running mean of 4, 2, 6 with weight 1/2; the batch mean


def test_token_ema_divides_mean_sums_by_mean_counts_and_waits_for_absent_groups():
    estimator = run(TokenEMA(2, weight=0.5), [[8, 9], [1, 0]], [[4, 3], [1, 0]])
    assert estimator.losses.tolist() == [(8 / 2 + 1) / (4 / 2 + 1), 3.0]
    run(estimator, [[1, 0]] * 10_000, [[1, 0]] * 10_000)
    assert estimator.losses.tolist() == pytest.approx([1.0, 3.0])  # (1 - weight)^10,000 would be 0: 0 / 0
    assert not TokenEMA(2).seen.any()


@given(st.lists(st.tuples(st.floats(0.1, 10), st.integers(1, 60)), min_size=1, max_size=20), st.floats(0.05, 1))
def test_an_average_over_tokens_lies_within_the_losses_it_is_made_of(batches, weight):
    losses, counts = zip(*batches, strict=True)
    found = run(TokenEMA(1, weight), [[loss * count] for loss, count in batches], [[count] for count in counts])
    assert min(losses) - 1e-9 <= found.losses[0] <= max(losses) + 1e-9


def test_batches_sorted_by_length_mislead_means_of_batch_means_but_not_those_of_tokens():
    """Two groups whose loss depends on length alone; most sentences of the second are short."""
    rng = np.random.default_rng(3)
    estimators = [EMA(2, 0.01), TokenEMA(2, 0.01), IntervalMean(2)]
    for _ in range(4000):
        is_long = rng.random() < 0.5
        counts = np.array([10.0, 10.0]) if is_long else np.array([10.0, 150.0])
        for estimator in estimators:
            estimator.observe(counts * (4.0 if is_long else 2.0), counts)
    truth = [3.0, (4.0 * 10 + 2.0 * 150) / 160]
    by_batch, by_token, by_interval = (estimator.losses for estimator in estimators)
    assert by_token == pytest.approx(truth, abs=0.15)
    assert by_interval == pytest.approx(truth, abs=0.05)
    assert by_batch == pytest.approx([3.0, 3.0], abs=0.15)  # independent of the number of sentences in a batch


def test_interval_mean_weighs_tokens_and_keeps_the_last_value_of_unseen_groups():
    estimator = run(IntervalMean(2), [[10, 9], [2, 0]], [[5, 3], [1, 0]])
    assert estimator.losses.tolist() == [2.0, 3.0]
    estimator.end_interval()
    run(estimator, [[8, 0]], [[2, 0]])
    assert estimator.losses.tolist() == [4.0, 3.0]
    assert estimator.seen.all()


def test_standard_error_of_the_interval_mean_covers_the_truth_as_often_as_it_should():
    rng = np.random.default_rng(5)
    truth, covered, runs = 3.0, 0, 400
    for _ in range(runs):
        estimator = IntervalMean(1)
        counts = rng.integers(50, 150, size=40)
        batch_effect = rng.normal(0, 0.3, size=40)  # sentences in a batch are similar: tokens are not independent
        for count, effect in zip(counts, batch_effect, strict=True):
            estimator.observe(np.array([count * (truth + effect)]), np.array([float(count)]))
        covered += abs(estimator.losses[0] - truth) < 1.96 * estimator.standard_errors[0]
    assert 0.91 < covered / runs < 0.98
    assert run(IntervalMean(1), [[3]], [[1]]).standard_errors[0] == np.inf


@pytest.mark.parametrize(("options", "message"), [({"weight": 0}, "ema"), ({"start": "warm"}, "start")])
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}:"):
        EMA(2, **options)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("trend", [0.0, 0.004])
def test_trendless_errors_are_those_of_the_noise_though_losses_fall(clustered, trend):
    """The spread of many means, whether batches or tokens vary; a fall of 0.8 in an interval would triple it."""
    rng, many = np.random.default_rng(3), 1000
    estimator = TrendlessMean(many)
    for step in range(200):
        counts = rng.integers(1, 40, many).astype(float)
        noise = rng.normal(size=many) * (1 if clustered else 3 / np.sqrt(counts))
        estimator.observe(counts * (4 - trend * step + noise), counts)
    assert np.mean(estimator.standard_errors) == pytest.approx(np.std(estimator.losses), rel=0.15)


def test_trendless_errors_need_two_steps_of_the_same_interval():
    estimator = TrendlessMean(2)
    for sums in ([3.0, 0.0], [4.0, 9.0]):
        estimator.observe(np.array(sums), np.array([1.0, 2.0]) * (np.array(sums) > 0))
    assert estimator.standard_errors == pytest.approx([0.5, np.inf])
    estimator.end_interval()
    estimator.observe(np.array([3.0, 4.0]), np.array([1.0, 1.0]))
    assert np.isinf(estimator.standard_errors).all()
