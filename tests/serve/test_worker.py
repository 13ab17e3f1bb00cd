from __future__ import annotations

from itertools import chain

from evenglot.serve import Limits
from tests.serve.clients import FOREIGN, Held, ask, asking, assert_same, expected, serving, wait_until, waiting


def test_two_hundred_requests_at_once_are_all_answered_as_if_alone(url, translator):
    languages = ["aa" if number % 3 else "bb" for number in range(200)]
    questions = [
        {"text": FOREIGN[language][number], "from": language, "n_best": 1 + number % 2}
        for number, language in enumerate(languages)
    ]
    with asking(url, questions) as answers:
        assert [answer.result().status_code for answer in answers] == [200] * 200
    for question, answer in zip(questions, answers, strict=True):
        wanted = expected(translator, [question["text"]], question["from"], question["n_best"])
        assert_same(answer.result().json(), wanted)


def test_those_that_wait_are_translated_together_within_limits(model):
    held = Held()
    questions = [{"sentences": [f"{name}{number}" for number in range(5)]} for name in "abcdef"]
    with serving(held, model, Limits(batch_sentences=8)) as url:
        with asking(url, questions) as answers:
            wait_until(lambda: held.asked == waiting(url) == len(questions))
            held.let_go()
        for question, answer in zip(questions, answers, strict=True):
            found = [each[0]["text"] for each in answer.result().json()["translations"]]
            assert found == [sentence.upper() for sentence in question["sentences"]]
    assert sorted(chain(*held.batches)) == sorted(chain(*(question["sentences"] for question in questions)))
    assert max(map(len, held.batches)) == 8
    assert len(held.batches) < 6  # fewer than requests


def test_long_sentences_make_small_batches(model):
    held = Held(False)
    with serving(held, model, Limits(batch_characters=25)) as url:
        assert len(ask(url, sentences=["x" * 10] * 5 + ["y" * 60]).json()["translations"]) == 6
    assert [len(batch) for batch in held.batches] == [2, 2, 1, 1]


def test_other_options_are_another_batch(model):
    held, questions = Held(), [{"sentences": [str(beam)], "beam": beam} for beam in (1, 2, 3)]
    with serving(held, model) as url, asking(url, questions):
        wait_until(lambda: held.asked == waiting(url) == 3)
        held.let_go()
    assert sorted(held.batches) == [["1"], ["2"], ["3"]]


def test_a_failure_is_told_and_the_next_request_is_answered(model, caplog):
    with serving(Held(False), model) as url:
        answer = ask(url, sentences=["poison"])
        assert answer.status_code == 500
        assert list(answer.json()) == ["error"]
        assert ask(url, sentences=["fine"]).status_code == 200
    assert "the model broke" in caplog.text
