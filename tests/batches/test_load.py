import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenglot.batches.draw import draw
from evenglot.batches.load import Loader, load
from evenglot.sequences import ParallelSequences, Sequences
from tests.batches.cases import mixtures

PAD = 2
SIZES = {"tur-en": 300, "aze-en": 40, "bel-en": 7}


def sequences(folder, count, ids, random):
    """Random sentences in real memory maps."""
    lengths = np.minimum(random.geometric(0.1, count), 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    arrays = {"ids": random.integers(3, 60_000, offsets[-1]).astype(ids), "offsets": offsets}
    for name, array in arrays.items():
        array.tofile(folder / name)
    return Sequences(*(np.memmap(folder / name, array.dtype, "r") for name, array in arrays.items()))


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    random = np.random.default_rng(1)

    def side(ids, count):
        return sequences(tmp_path_factory.mktemp("side"), count, ids, random)

    return {name: ParallelSequences(side(np.uint16, n), side(np.uint32, n)) for name, n in SIZES.items()}


def loader(corpora, q=None, *, seed=1, interval=0, budget=256, micro_batches=3, **rank):
    drawn = draw({name: len(corpus) for name, corpus in corpora.items()}, q or SIZES, seed=seed, interval=interval)
    return load(corpora, drawn, budget=budget, micro_batches=micro_batches, pad=PAD, **rank)


def pairs_of(batches, names):
    """The batches of weight 1, as plain values: direction, source ids and target ids of every row."""
    return [
        [
            (names[g], source[:s].tolist(), target[:t].tolist())
            for g, source, s, target, t in zip(
                batch.direction, batch.source, batch.source_lengths, batch.target, batch.target_lengths, strict=True
            )
        ]
        for batch in batches
        if batch.weight
    ]


def test_a_batch_holds_the_sentences_of_its_rows_padded_on_the_right(corpora):
    whole = loader(corpora, {"tur-en": 0.4, "aze-en": 0.3, "bel-en": 0.3})
    for k, batches in whole.iterate():
        for batch, rows in zip(batches, whole.plan.update(k), strict=True):
            assert batch.source.shape[1] == batch.source_lengths.max()
            assert batch.target.shape[1] == batch.target_lengths.max()
            assert (batch.source == PAD).sum() == batch.source.numel() - batch.source_lengths.sum()
            for tensor in (batch.source, batch.target, batch.source_lengths, batch.target_lengths, batch.direction):
                assert tensor.dtype == torch.int64
            expected = []
            for row in rows:
                name, pair = whole.names[whole.interval.direction[row]], whole.interval.pair[row]
                sides = corpora[name].source[pair], corpora[name].target[pair]
                expected.append((name, *(side.tolist() for side in sides)))
            assert pairs_of([batch], whole.names) == [expected]


def test_a_batch_can_be_cut(corpora):
    whole = loader(corpora)
    batch = max(whole.update(0), key=lambda each: len(each.direction))
    assert len(batch.direction) > 2
    cut = batch.first(2)
    assert pairs_of([cut], whole.names) == [pairs_of([batch], whole.names)[0][:2]]
    assert (cut.source.shape[1], cut.target.shape[1]) == (batch.source.shape[1], batch.target.shape[1])
    assert cut.weight == batch.weight


def test_tokens_are_counted_as_the_tensors_have_them(corpora):
    whole = loader(corpora)
    real = padded = 0
    for k, batches in whole.iterate():
        assert sum(int(batch.target_lengths.sum()) for batch in batches) == whole.plan.target_tokens_in(k)
        real += sum(int(batch.source_lengths.sum() + batch.target_lengths.sum()) for batch in batches)
        padded += sum(batch.source.numel() + batch.target.numel() for batch in batches)
    assert whole.plan.padding() == pytest.approx(1 - real / padded)


@settings(max_examples=15)
@given(st.integers(2, 4), mixtures(list(SIZES)), st.integers(0, 99), st.integers(1, 5))
def test_any_number_of_ranks_trains_on_the_same_global_batches(corpora, world, q, seed, micro_batches):
    whole = loader(corpora, q, seed=seed, micro_batches=micro_batches)
    ranks = [
        loader(corpora, q, seed=seed, micro_batches=micro_batches, rank=rank, world=world) for rank in range(world)
    ]
    for k in range(len(whole)):
        shares = [rank.update(k) for rank in ranks]
        assert len({len(share) for share in shares}) == 1
        rounds = [batch for together in zip(*shares, strict=True) for batch in together]
        assert pairs_of(rounds, whole.names) == pairs_of(whole.update(k), whole.names)
        assert all(len(batch.source) for batch in rounds)  # dummy batches are not empty


@settings(max_examples=15)
@given(st.data())
def test_seeking_is_skipping(corpora, data):
    whole = loader(corpora, seed=data.draw(st.integers(0, 99)))
    start = data.draw(st.integers(0, len(whole)))
    skipped = [(k, pairs_of(batches, whole.names)) for k, batches in whole.iterate() if k >= start]
    assert [(k, pairs_of(batches, whole.names)) for k, batches in whole.iterate(start)] == skipped


def test_seed_interval_and_update_continue_an_iteration_elsewhere(corpora):
    first, second = (loader(corpora, seed=5, interval=2) for _ in range(2))
    k, batches = next(second.iterate(3))
    assert (k, pairs_of(batches, second.names)) == (3, pairs_of(first.update(3), first.names))


def test_an_interval_that_is_over_has_nothing_left_and_there_is_nothing_beyond(corpora):
    whole = loader(corpora)
    assert list(whole.iterate(len(whole))) == []
    for start in (-1, len(whole) + 1):
        with pytest.raises(IndexError, match="^start:"):
            next(whole.iterate(start))


class Watched(Loader):
    """Records which updates were built, and in which threads."""

    def update(self, k):
        made, threads = self.corpora["notes"]
        made.append(k)
        threads.add(threading.current_thread().name)
        return super().update(k)


def watched(corpora):
    plain = loader(corpora)
    made, threads = [], set()
    return Watched({**corpora, "notes": (made, threads)}, plain.interval, plain.plan, PAD), made, threads


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_a_thread_prepares_what_comes_next_but_not_more(corpora, ahead):
    whole, made, threads = watched(corpora)
    iteration = whole.iterate(1, ahead)
    for expected in (1, 2, 3):
        assert next(iteration)[0] == expected
        assert max(made) <= expected + ahead
    iteration.close()
    assert threading.current_thread().name not in threads


@pytest.mark.parametrize("how", ["exhaust", "break off", "never start", "fail"])
def test_no_thread_is_left_behind(corpora, how):
    before = threading.active_count()
    iteration = loader(corpora).iterate()
    if how == "exhaust":
        list(iteration)
    if how == "break off":
        next(iteration)
        assert threading.active_count() == before + 1
        iteration.close()
    if how == "fail":
        next(iteration)
        with pytest.raises(RuntimeError, match="of the reader"):
            iteration.throw(RuntimeError("of the reader"))
    assert threading.active_count() == before


def test_what_goes_wrong_in_the_thread_is_raised_in_the_reader(corpora):
    broken = dict(corpora)
    source, target = broken["tur-en"].source, broken["tur-en"].target
    broken["tur-en"] = ParallelSequences(Sequences(source.ids[:9], source.offsets), target)
    before = threading.active_count()
    with pytest.raises(IndexError, match="out of bounds"):  # NumPy's
        list(loader(broken).iterate())
    assert threading.active_count() == before


@pytest.mark.parametrize("pairs", [5, 2000])
def test_lengths_are_those_of_the_drawn_pairs_in_short_and_long_intervals(corpora, pairs):
    interval = draw(SIZES, SIZES, seed=1, interval=0, pairs=pairs)
    plan = load(corpora, interval, budget=256, pad=PAD).plan
    drawn = [(corpora[interval.names[d]], i) for d, i in zip(interval.direction, interval.pair, strict=True)]
    lengths = [(len(corpus.source[i]), len(corpus.target[i])) for corpus, i in drawn]
    assert plan.tokens.sum() == sum(map(sum, lengths))
    assert plan.target_tokens.sum() == sum(target for _, target in lengths)
