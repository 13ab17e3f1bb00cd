import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.batches.pack import TOKENS_PER_UPDATE, pack
from tests.batches.cases import LENGTHS, SEEDS


@st.composite
def packings(draw):
    """Lengths of both sides, and a plan for them."""
    source, target = np.array(draw(LENGTHS), dtype=np.int32).T
    options = {
        "budget": draw(st.integers(1, 400)),
        "micro_batches": draw(st.integers(1, 5)),
        "window": draw(st.integers(1, 150)),
        "multiple": draw(st.sampled_from([1, 8])),
    }
    return source, target, options, pack(source, target, seed=draw(SEEDS), interval=draw(SEEDS), **options)


@given(packings())
def test_every_row_is_in_one_batch_and_no_batch_is_over_budget_but_a_single_long_pair(packing):
    source, target, options, plan = packing
    batches = [batch for k in range(len(plan)) for batch in plan.update(k)]
    assert sorted(np.concatenate(batches)) == list(range(len(source)))
    for batch in batches:
        assert len(batch) == 1 or cost(source, target, batch) <= options["budget"]
        assert len(batch) < options["multiple"] or len(batch) % options["multiple"] == 0


@given(LENGTHS, st.integers(1, 400), st.integers(1, 150), SEEDS)
def test_batches_are_those_of_filling_up_row_by_row(lengths, budget, window, seed):
    source, target = np.array(lengths, dtype=np.int32).T
    plan = pack(source, target, budget=budget, window=window, seed=seed, interval=0, micro_batches=1)
    expected = []
    for first in range(0, len(source), window):
        expected.append([])
        for row in plan.rows[first : first + window]:
            if expected[-1] and cost(source, target, [*expected[-1], row]) > budget:
                expected.append([])
            expected[-1].append(int(row))
    assert sorted(batch.tolist() for k in range(len(plan)) for batch in plan.update(k)) == sorted(expected)


@given(packings())
def test_updates_have_equally_many_micro_batches_but_the_last(packing):
    _, _, options, plan = packing
    sizes = [len(plan.update(k)) for k in range(len(plan))]
    assert set(sizes[:-1]) <= {options["micro_batches"]}
    assert 1 <= sizes[-1] <= options["micro_batches"]


@given(packings(), st.integers(1, 4))
def test_ranks_share_an_update_without_loss_or_repetition_and_do_equally_many_micro_batches(packing, world):
    *_, plan = packing
    for k in range(len(plan)):
        shares = [plan.share(k, rank, world) for rank in range(world)]
        assert len({len(share) for share in shares}) == 1
        rounds = [batch.tolist() for together in zip(*shares, strict=True) for batch in together]
        batches = [batch.tolist() for batch in plan.update(k)]
        assert rounds[: len(batches)] == batches
        assert rounds[len(batches) :] == [[]] * (len(rounds) - len(batches))
        assert len(rounds) - len(batches) < world


@given(packings())
def test_a_plan_knows_its_padding_and_the_tokens_of_each_update(packing):
    source, target, _, plan = packing
    padded = 0
    for k in range(len(plan)):
        assert plan.target_tokens_in(k) == sum(target[batch].sum() for batch in plan.update(k))
        padded += sum(len(batch) * (source[batch].max() + target[batch].max()) for batch in plan.update(k))
    assert plan.padding() == pytest.approx(1 - (source.sum() + target.sum()) / padded)


@given(LENGTHS, SEEDS)
def test_a_plan_is_a_function_of_seed_and_interval(lengths, seed):
    source, target = np.array(lengths, dtype=np.int32).T
    plans = [pack(source, target, budget=100, seed=seed, interval=2) for _ in range(2)]
    assert plans[0].starts.tolist() == plans[1].starts.tolist()
    assert plans[0].rows.tolist() == plans[1].rows.tolist()


def corpus(pairs):
    """Lengths like those of a real corpus."""
    random = np.random.default_rng(1)
    source = random.lognormal(3, 0.6, pairs)
    target = source * random.lognormal(0, 0.25, pairs)
    return np.clip(source, 2, 300).astype(np.int32), np.clip(target, 2, 300).astype(np.int32)


def test_padding_is_below_four_percent_and_batches_are_full():
    source, target = corpus(100_000)
    plan = pack(source, target, budget=4096, seed=1, interval=0)
    assert plan.padding() < 0.04
    costs = [cost(source, target, plan.rows[i:j]) for i, j in zip(plan.starts, plan.stops, strict=True)]
    assert np.mean(costs) > 0.98 * 4096


def test_languages_of_equal_lengths_are_mixed_in_every_full_batch():
    source, target = corpus(50_000)
    language = np.random.default_rng(2).integers(0, 4, len(source))
    plan = pack(source, target, budget=4096, seed=1, interval=0)
    full = [plan.rows[i:j] for i, j in zip(plan.starts, plan.stops, strict=True) if j - i >= 50]
    assert len(full) > 200
    assert all(len(set(language[batch])) == 4 for batch in full)


def test_batches_come_in_random_order_of_length_and_another_one_in_each_interval():
    source, target = corpus(50_000)
    first, second = (pack(source, target, budget=4096, seed=1, interval=interval) for interval in (0, 1))
    order = np.arange(len(first.starts))
    assert abs(np.corrcoef(order, source[first.rows[first.starts]])[0, 1]) < 0.2
    assert first.starts.tolist() != second.starts.tolist()


def test_by_default_an_update_has_the_tokens_of_the_paper():
    source, target = corpus(50_000)
    plan = pack(source, target, budget=4096, seed=1, interval=0)
    assert plan.micro_batches * 4096 == TOKENS_PER_UPDATE


def test_very_long_pairs_are_packed_too():
    source = np.array([70_000, 3, 200, 3], dtype=np.int32)
    plan = pack(source, source, budget=10, seed=1, interval=0, micro_batches=9)
    assert sorted(batch.tolist() for batch in plan.update(0)) == [[0], [1, 3], [2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 0}, "^budget:"),
        ({"micro_batches": 0}, "^micro_batches:"),
        ({"window": 0}, "^window:"),
        ({"multiple": 0}, "^multiple:"),
        ({"target": np.array([1, 0])}, "^lengths:"),
        ({"target": np.array([1])}, "^lengths:"),
        ({"source": np.array([], int), "target": np.array([], int)}, "^lengths:"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {
        "source": np.array([1, 2]),
        "target": np.array([2, 1]),
        "budget": 9,
        "seed": 1,
        "interval": 0,
        **change,
    }
    with pytest.raises(ValueError, match=message):
        pack(**arguments)


def test_there_is_nothing_beyond_the_last_update_or_rank():
    plan = pack(np.array([1, 2]), np.array([2, 1]), budget=9, seed=1, interval=0)
    for k in (-1, 1):
        with pytest.raises(IndexError, match=rf"update {k}\b.*\b1\b"):
            plan.update(k)
    with pytest.raises(ValueError, match="^rank:"):
        plan.share(0, 2, 2)


def cost(source, target, rows):
    return len(rows) * max(source[rows].max(), target[rows].max())
