from __future__ import annotations

from itertools import chain

import numpy as np

from evenglot.serve import Limits
from tests.serve.clients import FOREIGN, SlowTranslator, ask, ask_all, assert_same, expected, serving


def test_two_hundred_requests_at_once_are_all_answered_as_if_alone(url, translator):
    languages = ["aa" if number % 3 else "bb" for number in range(200)]
    questions = [
        {"text": FOREIGN[language][number], "from": language, "n_best": 1 + number % 2}
        for number, language in enumerate(languages)
    ]
    answers = ask_all(url, questions)
    assert [answer.status_code for answer, _ in answers] == [200] * 200
    for question, (answer, _) in zip(questions, answers, strict=True):
        assert_same(answer.json(), expected(translator, [question["text"]], question["from"], question["n_best"]))
    print(f"p95: {np.quantile([seconds for _, seconds in answers], 0.95):.2f} s")


def test_those_that_wait_are_translated_together_within_limits(model):
    slow = SlowTranslator(0.3)
    questions = [{"sentences": [f"{name}{number}" for number in range(5)]} for name in "abcdef"]
    with serving(slow, model, Limits(batch_sentences=8)) as url:
        answers = ask_all(url, questions)
    for question, (answer, _) in zip(questions, answers, strict=True):
        found = [each[0]["text"] for each in answer.json()["translations"]]
        assert found == [sentence.upper() for sentence in question["sentences"]]
    assert sorted(chain(*slow.batches)) == sorted(chain(*(question["sentences"] for question in questions)))
    assert max(map(len, slow.batches)) == 8
    assert len(slow.batches) < 6  # fewer than requests


def test_long_sentences_make_small_batches(model):
    slow = SlowTranslator()
    with serving(slow, model, Limits(batch_characters=25)) as url:
        assert len(ask(url, sentences=["x" * 10] * 5 + ["y" * 60]).json()["translations"]) == 6
    assert [len(batch) for batch in slow.batches] == [2, 2, 1, 1]


def test_other_options_are_another_batch(model):
    slow = SlowTranslator(0.1)
    with serving(slow, model) as url:
        ask_all(url, [{"sentences": [str(beam)], "beam": beam} for beam in (1, 2, 3)])
    assert sorted(slow.batches) == [["1"], ["2"], ["3"]]


def test_a_failure_is_told_and_the_next_request_is_answered(model, caplog):
    with serving(SlowTranslator(), model) as url:
        answer = ask(url, sentences=["poison"])
        assert answer.status_code == 500
        assert "the model failed" in answer.json()["error"]
        assert ask(url, sentences=["fine"]).status_code == 200
    assert "the model broke" in caplog.text
