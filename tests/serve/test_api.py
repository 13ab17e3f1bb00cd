from __future__ import annotations

import json
import re
import socket
from contextlib import ExitStack

import pytest
from starlette.exceptions import HTTPException

from evenglot.directions import Direction
from evenglot.serve import Limits
from evenglot.serve.api import choose_direction
from evenglot.serve.openapi import describe
from tests.patience import PATIENCE
from tests.serve.clients import FOREIGN, Held, ask, asking, assert_same, expected, serving, wait_until, waiting
from tests.web import get, post, request


def test_translations_are_those_of_the_translator(url, translator):
    answer = ask(url, sentences=FOREIGN["aa"][:8], to="en", **{"from": "aa"}, n_best=3, beam=4).json()
    assert_same(answer, expected(translator, FOREIGN["aa"][:8], "aa", n_best=3, beam=4))
    assert answer["direction"] == "aa-en"
    assert answer["seconds"] > 0
    assert answer["warnings"] == []


def test_a_text_is_a_sentence_a_line(url, translator):
    first, second = FOREIGN["aa"][:2]
    answer = ask(url, text=f"{first}\r\n\n{second}\u2028{first}\n", **{"from": "aa"}).json()
    assert_same(answer, expected(translator, [first, "", f"{second}\u2028{first}"], "aa"))
    assert ask(url, text="", **{"from": "aa"}).json()["translations"] == [[{"text": "", "score": 0.0}]]
    assert ask(url, sentences=[], **{"from": "aa"}).json()["translations"] == []


def test_a_sentence_that_is_cut_is_named(url):
    answer = ask(url, sentences=["abc", "x y z " * 400], **{"from": "aa"}, beam=1).json()
    assert len(answer["warnings"]) == 1
    assert answer["warnings"][0].startswith("sentence 2: ")


def test_the_model_says_what_it_is(url, model):
    answer = get(f"{url}/api/model").json()
    assert answer == model.model_dump()
    assert answer["directions"] == ["aa-en", "bb-en", "cc-en"]
    assert answer["languages"] == {"from": ["aa", "bb", "cc"], "to": ["en"]}
    assert answer["strategy"] == "uniform"
    assert 0 < answer["step"] <= 260
    assert get(f"{url}/api/health").json() == {"status": "ok", "requests": 0}


def test_the_description_lists_all_routes_and_what_they_answer(url):
    found = get(f"{url}/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    for path, operations in found["paths"].items():
        for method in ("get", "post"):
            status = request(method, url + path).status_code
            assert (status == 405) == (method not in operations)
    assert len(found["paths"]) == 8
    assert {"400", "413", "422", "503", "504"} < set(found["paths"]["/api/translate"]["post"]["responses"])
    text = json.dumps(found)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in found["components"]["schemas"]
    question = found["components"]["schemas"]["Question"]
    assert question["required"] == ["from"]
    assert question["properties"]["from"]["enum"] == ["aa", "bb", "cc"]
    assert question["properties"]["to"]["enum"] == [None, "en"]


def test_the_description_says_which_languages_go_together():
    def described(*accepted):
        return describe(Limits(beam=2), set(accepted))["components"]["schemas"]["Question"]

    assert "anyOf" not in described(("aa", "en"), ("aa", None), (None, "en"), (None, None))
    pairs = described(("aa", "en"), ("en", "aa"))
    assert pairs["required"] == ["from", "to"]
    assert [{name: each["const"] for name, each in choice["properties"].items()} for choice in pairs["anyOf"]] == [
        {"from": "aa", "to": "en"},
        {"from": "en", "to": "aa"},
    ]


def test_a_whole_number_may_have_a_fraction_of_zero(url):
    assert ask(url, sentences=[], beam=2.0, n_best=2.0, **{"from": "aa"}).status_code == 200
    assert ask(url, sentences=[], beam=2.5, **{"from": "aa"}).status_code == 422


# Limits


def test_the_queue_has_an_end(model):
    held = Held()
    with serving(held, model, Limits(requests=3)) as url:
        with asking(url, [{"sentences": ["x"]}] * 8) as answers:
            wait_until(lambda: sum(answer.done() for answer in answers) == 5)
            held.let_go()
        statuses = [answer.result().status_code for answer in answers]
        assert sorted(statuses) == [200] * 3 + [503] * 5
        refused = answers[statuses.index(503)].result()
        assert refused.headers["retry-after"] == "1"
        assert list(refused.json()) == ["error"]
        assert ask(url, sentences=["x"]).status_code == 200


def test_who_waits_too_long_is_told_and_the_rest_of_the_work_is_dropped(model):
    held = Held()
    with serving(held, model, Limits(seconds=0.2, batch_sentences=1)) as url:
        answer = ask(url, sentences=["x"] * 100)
        assert answer.status_code == 504
        assert "0.2 seconds" in answer.json()["error"]
        wait_until(lambda: waiting(url) == 0)
        held.let_go()
        while ask(url, sentences=["y"]).status_code != 200:  # a busy machine may need more than its 0.2 seconds
            continue
    assert held.batches[0] == ["x"]
    assert all(batch == ["y"] for batch in held.batches[1:])


def test_work_for_a_client_that_has_gone_is_dropped(model):
    held = Held()
    with serving(held, model, Limits(batch_sentences=1)) as url:
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps({"sentences": ["x"] * 100}).encode()
        head = f"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode() + body)
            wait_until(lambda: bool(held.batches))
        wait_until(lambda: waiting(url) == 0)
        held.let_go()
        assert ask(url, sentences=["y"]).status_code == 200
    assert held.batches == [["x"], ["y"]]


@pytest.mark.parametrize("pieces", [30, 2000])
def test_a_large_body_is_refused_also_if_it_does_not_say_so(model, pieces):
    limits = Limits(body=10_000)
    with serving(Held(False), model, limits) as url:
        chunked = post(f"{url}/api/translate", content=(b" " * 1000 for _ in range(pieces)))
        whole = post(f"{url}/api/translate", content=b" " * 1000 * pieces)
    for answer in (chunked, whole):
        assert answer.status_code == 413
        assert "10000 bytes" in answer.json()["error"]


def test_a_body_that_does_not_come_is_not_waited_for(model):
    with serving(Held(False), model, Limits(seconds=0.2)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            connection.settimeout(PATIENCE)
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_is_still_being_received_keeps_nobody_out(model):
    body = json.dumps({"sentences": ["slow"]}).encode()
    # With `Expect`, the server says when it begins to read the body.
    head = f"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n"
    with serving(Held(False), model, Limits(seconds=PATIENCE, requests=1)) as url, ExitStack() as stack:
        host, port = url.removeprefix("http://").split(":")
        connections = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(3)]
        for connection in connections:
            connection.settimeout(PATIENCE)
            connection.sendall(head.encode() + b"\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
            connection.sendall(body[:5])
        assert waiting(url) == 0
        assert ask(url, sentences=["x"]).status_code == 200
        for connection in connections:
            connection.sendall(body[5:])
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_sentences_and_characters_have_limits(model):
    with serving(Held(False), model, Limits(sentences=3, characters=10)) as url:
        assert ask(url, sentences=["x" * 10] * 3).status_code == 200
        many, long = ask(url, text="x\n" * 4), ask(url, sentences=["x", "x" * 11])
    assert (many.status_code, re.findall(r"\d+", many.json()["error"])) == (413, ["4", "3"])
    assert (long.status_code, re.findall(r"\d+", long.json()["error"])) == (413, ["2", "11", "10"])


# Mistakes


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("{", 400, "Invalid JSON"),
        ("", 400, "Invalid JSON"),
        (b"\xff", 400, "Invalid JSON"),
        (r'{"text": "\ud800", "from": "aa"}', 400, "Invalid JSON"),
        ("[" * 5000, 400, "Invalid JSON"),
        ("[]", 422, "should be an object"),
        ('{"from": "aa"}', 422, "sentences, text: "),
        ('{"from": "aa", "text": "x", "sentences": []}', 422, "sentences, text: "),
        ('{"from": "aa", "text": 1}', 422, "text: "),
        ('{"from": "aa", "sentences": ["x", null]}', 422, "sentences.1: "),
        ('{"from": "aa", "text": "x", "n_bset": 3}', 422, "'n_best'"),
        ('{"from": "aa", "text": "x", "n_best": 0}', 422, "n_best: "),
        ('{"from": "aa", "text": "x", "n_best": 1.5}', 422, "n_best: "),
        ('{"from": "aa", "text": "x", "n_best": 6}', 422, "n_best: "),
        ('{"from": "aa", "text": "x", "beam": 1000000}', 422, "beam: "),
        ('{"from": "xx", "text": "x"}', 422, "aa, bb, cc"),
        ('{"from": "../aa", "text": "x"}', 422, "aa, bb, cc"),
        ('{"from": "aa", "to": "de", "text": "x"}', 422, "to: "),
        ('{"text": "x"}', 422, "aa-en, bb-en, cc-en"),
    ],
)
def test_mistakes_are_told_in_one_line(url, body, status, text):
    answer = post(f"{url}/api/translate", content=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert text in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_a_direction_it_was_not_trained_on(translator, monkeypatch):
    monkeypatch.setattr(translator, "directions", [Direction("aa", "en"), Direction("bb", "cc")])
    with pytest.raises(HTTPException, match="aa-cc: .*aa-en, bb-cc"):
        choose_direction(translator, "cc", "aa")


def test_other_paths_and_methods(url):
    for path in ("/nope", "/api/health/", "/../../etc/passwd", "/static/x"):
        answer = get(url + path)
        assert answer.status_code == 404
        assert list(answer.json()) == ["error"]
    answer = get(f"{url}/api/translate")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "GET" in answer.json()["error"]
