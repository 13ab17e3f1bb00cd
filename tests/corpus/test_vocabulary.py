from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from evenglot.balance.static import temperature
from evenglot.corpus.read import CorpusError
from evenglot.corpus.vocabulary import Text, balanced_sample, coverage, repetitions, train_vocabulary
from tests.corpus.conftest import sentences

TAGS = [">>por<<", ">>rus<<"]


def load(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def text(language, size, kept=None):
    kept = np.ones(size, dtype=bool) if kept is None else kept
    return Text(language, "source", kept, lambda wanted: [f"{language} {number}" for number in wanted])


def test_training_is_deterministic_and_gives_tags_their_own_pieces():
    lines = list(sentences("por", 0, 300))
    first, second = (train_vocabulary(lines, size=120, tags=TAGS) for _ in range(2))
    assert first == second
    model = load(first)
    assert model.id_to_piece(list(range(5))) == ["</s>", "<unk>", "<pad>", *TAGS]
    assert model.bos_id() == -1
    assert all(model.is_control(model.piece_to_id(tag)) for tag in TAGS)


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_both_kinds_encode_without_loss(model):
    lines = list(sentences("rus", 0, 300))
    processor = load(train_vocabulary(lines, size=150, tags=[], model=model))
    assert [processor.decode(processor.encode(line)) for line in lines] == lines


def test_impossible_sizes_are_refused_in_plain_words():
    with pytest.raises(CorpusError, match=r"^vocabulary: 10 .*character_coverage"):
        train_vocabulary(sentences("rus", 0, 50), size=10, tags=[])
    with pytest.raises(CorpusError, match=r"^vocabulary: .*9999.* at most \d+"):
        train_vocabulary(sentences("rus", 0, 50), size=9999, tags=[], model="bpe")
    assert len(load(train_vocabulary(sentences("rus", 0, 50), size=9999, tags=[]))) < 9999


def test_coverage_tells_a_starved_language_from_a_served_one():
    model = load(train_vocabulary(sentences("por", 0, 300), size=120, tags=[]))
    served = coverage(model, list(sentences("por", 0, 50)))
    assert (served.unknown, served.characters, served.starved) == (0, 1, False)
    starved = coverage(model, list(sentences("rus", 0, 50)))
    assert starved.unknown > 0.1
    assert starved.characters < 0.5
    assert starved.starved
    assert coverage(model, []).pieces_per_word == 0


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=5), st.sampled_from([1.0, 5.0, np.inf]), st.integers(50, 1000)
)
def test_a_sample_balances_languages_and_repeats_no_sentence_more_than_needed(sizes, tau, most):
    texts = [text(f"l{i}", size) for i, size in enumerate(sizes)]
    sample = balanced_sample(texts, tau, most, seed=1)
    assert len(sample) <= min(most, 1.5 * sum(sizes)) + len(sizes)
    shares = temperature(sizes, tau)
    for i, size in enumerate(sizes):
        mine = [line for line in sample if line.startswith(f"l{i} ")]
        assert abs(len(mine) - len(sample) * shares[i]) <= 2 + len(sizes)
        times = [mine.count(line) for line in set(mine)]
        assert max(times, default=0) <= -(-len(mine) // size)
    assert sample == balanced_sample(texts, tau, most, seed=1)


def test_without_a_limit_the_largest_language_is_used_once():
    sizes = {"a": 6000, "b": 300_000, "c": 2000}
    texts = [text(name, size) for name, size in sizes.items()]
    assert Counter(balanced_sample(texts, 1.0, None, 1)).most_common(1)[0][1] == 1
    assert len(balanced_sample(texts, 1.0, None, 1)) == sum(sizes.values())  # more than any default limit
    tempered = balanced_sample(texts, 2.0, None, 1)
    assert len(tempered) == round(sizes["b"] / temperature(list(sizes.values()), 2.0)[1])
    assert len(set(tempered)) == sum(sizes.values())


def test_only_kept_sentences_are_sampled():
    kept = np.array([False, True] * 50)
    assert set(balanced_sample([text("a", 100, kept)], 1.0, 1000, 1)) == {f"a {i}" for i in range(1, 100, 2)}


@given(st.integers(1, 50), st.integers(0, 200))
def test_repetitions_differ_by_at_most_one(size, wanted):
    times = repetitions(size, wanted, np.random.default_rng(1))
    assert times.sum() == wanted
    assert times.max() - times.min() <= 1


def test_repeated_sentences_are_spread_over_the_sample():
    """SentencePiece takes minutes for a text that repeats in stretches, and seconds for the same in random order."""
    sample = balanced_sample([text("small", 60), text("big", 4000)], np.inf, 8000, 1)
    assert max(Counter(sample).values()) > 40
    side_by_side = sum(one == next_one for one, next_one in pairwise(sample))
    assert side_by_side < 0.02 * len(sample)
    halves = Counter(sample[: len(sample) // 2]), Counter(sample[len(sample) // 2 :])
    assert min(half["small 0"] for half in halves) > 15
