"""Scores follow from summed counts exactly as sacreBLEU computes them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from evenglot.scoring.metrics import METRICS, PRIMARY, primary_of, scored_by
from evenglot.scoring.metrics.loss import loss
from evenglot.scoring.scorer import Scorer

WORD = st.sampled_from(["a", "b", "the", "cat", "sat", "mat", ".", "é", "42", "x-y", "&amp;"])
SENTENCE = st.lists(WORD, max_size=7).map(" ".join)
CORPUS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=5)
THEIRS = {"bleu": BLEU, "chrf": lambda: CHRF(word_order=2), "ter": TER}


def assert_sacrebleus(hypotheses, references):
    found = Scorer().score(hypotheses, references).scores
    for key, metric in THEIRS.items():
        assert found[key] == pytest.approx(metric().corpus_score(hypotheses, [references]).score, abs=1e-9)


def test_every_metric_of_text_is_checked_against_sacrebleu():
    assert {key for key, metric in METRICS.items() if metric.from_text} == set(THEIRS)


@given(CORPUS)
@settings(max_examples=200)
def test_the_scores_are_sacrebleus(corpus):
    hypotheses, references = map(list, zip(*corpus, strict=True))
    assert_sacrebleus(hypotheses, references)


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([""], ["the cat sat on the mat"]),
        (["", ""], ["", ""]),
        (["a b c d e"], [""]),
        (["a"], ["a"]),
        (["a b"], ["a c"]),
        (["a b c"], ["a b c"]),
        (["a b c d"], ["a b c d"]),
        (["w x y z"], ["a b c d"]),
        (["c d a b"], ["a b c d"]),  # a shift is one edit
        (["a x c y e"], ["a b c d e"]),  # words match, longer n-grams do not: smoothed
        (["a b c d"], ["a b c d " * 40]),  # brevity
    ],
)
def test_so_are_those_of_odd_corpora(hypotheses, references):
    assert_sacrebleus(hypotheses, references)


def test_ter_counts_edits_and_words_of_the_reference():
    counts = Scorer().score(["the cat sat on mat", "Hello"], ["the cat sat on the mat", "hello there"]).counts["ter"]
    assert counts.tolist() == [[1, 6], [1, 2]]
    assert METRICS["ter"].total(counts) == 25.0


@given(CORPUS, st.integers(1, 4))
def test_many_sums_of_counts_at_once_are_scored_each_for_itself(corpus, copies):
    hypotheses, references = map(list, zip(*corpus, strict=True))
    for name, counts in Scorer().score(hypotheses, references).counts.items():
        sums = np.stack([number * counts.sum(axis=0, dtype=float) for number in range(copies + 1)])
        each = [float(METRICS[name].score(row)) for row in sums]
        assert METRICS[name].score(sums).tolist() == each
        assert each[0] == 0.0  # of no sentences


def test_a_loss_is_the_mean_over_characters_not_over_sentences():
    counts = np.array([[2.0, 1.0], [4.0, 19.0]])
    assert loss(counts.sum(0)) == pytest.approx(6 / 20)
    assert loss(counts).tolist() == pytest.approx([2.0, 4 / 19])


def test_losses_and_edit_rates_are_better_when_lower():
    assert {name for name, metric in METRICS.items() if metric.sign < 0} == {"loss", "ter"}


def test_the_primary_metric_is_chrf_or_else_the_first_there_is():
    assert PRIMARY == "chrf"
    assert primary_of(["loss", "chrf", "bleu"]) == "chrf"
    assert primary_of(["loss", "bleu"]) == "bleu"
    assert primary_of([]) is None


def test_scores_of_an_older_version_have_fewer_metrics():
    assert [metric.key for metric in scored_by({"bleu": 1.0, "chrf": 2.0, "lines": 3})] == ["bleu", "chrf"]
    newer = {"bleu": 1.0, "chrf": 2.0, "ter": 0.0, "loss_per_character": 1.0}
    assert [metric.key for metric in scored_by(newer)] == ["bleu", "chrf", "ter", "loss"]
