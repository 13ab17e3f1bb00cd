"""A real server, real requests, and a real browser."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import chain

import httpx
import numpy as np
import pytest

from evenglot.directions import Direction
from evenglot.evaluation.engines import SearchOptions
from evenglot.evaluation.translate import Translation
from evenglot.serve import Limits, about, allowed_host, choose_direction, listen, prepared, serve
from evenglot.training.run import Run
from tests.browser import FITS, Browser, start_browser
from tests.tasks import WORDS, cipher

SENTENCES = [" ".join(np.random.default_rng(seed).choice(WORDS, 1 + seed % 6)) for seed in range(200)]
FOREIGN = {language: [sentence.translate(cipher(language)) for sentence in SENTENCES] for language in ("aa", "bb")}


@contextmanager
def serving(translator, model, limits=None, names=()):
    """The address of a server that runs in a thread."""
    with listen("127.0.0.1", 0) as listening, prepared(translator, model, listening, limits or Limits(), names) as made:
        thread = threading.Thread(target=made.run, kwargs={"sockets": [listening]})
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.start()
        try:
            yield url
        finally:
            made.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def model(run, translator):
    return about(Run(run), "best", translator)


@pytest.fixture(scope="module")
def url(translator, model):
    with serving(translator, model) as address:
        yield address


class SlowTranslator:
    """Needs some time for each batch, and writes down what was in it."""

    def __init__(self, seconds=0.0):
        self.seconds, self.directions, self.batches = seconds, [Direction("aa", "en")], []

    def direction(self, to=None, source=None):
        return self.directions[0]

    def stream(self, sentences, direction, options, warn):
        self.batches.append(list(sentences))
        time.sleep(self.seconds)
        if "poison" in sentences:
            raise RuntimeError("the model broke")
        return iter([[Translation(text.upper(), -1.0)] for text in sentences])


def ask(url, **question):
    return httpx.post(f"{url}/api/translate", json=question, timeout=30)


def ask_all(url, questions):
    """Answers to questions that are all asked at once, and how long each took."""

    async def one(client, question):
        start = time.monotonic()
        answer = await client.post(f"{url}/api/translate", json=question)
        return answer, time.monotonic() - start

    async def all_of_them():
        limits = httpx.Limits(max_connections=len(questions))
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            return await asyncio.gather(*(one(client, question) for question in questions))

    return asyncio.run(all_of_them())


def expected(translator, sentences, language, n_best=1, beam=5):
    options = SearchOptions(beam=beam, n_best=n_best)
    return list(translator.stream(sentences, translator.direction("en", language), options))


def assert_same(answer, wanted):
    """The same texts; scores up to what the order of additions changes in 32 bits."""
    for found, meant in zip(answer["translations"], wanted, strict=True):
        assert [each["text"] for each in found] == [each.text for each in meant]
        assert [each["score"] for each in found] == pytest.approx([each.score for each in meant], abs=1e-4)


# Answers


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
    answer = httpx.get(f"{url}/api/model").json()
    assert answer == model.model_dump()
    assert answer["directions"] == ["aa-en", "bb-en", "cc-en"]
    assert answer["languages"] == {"from": ["aa", "bb", "cc"], "to": ["en"]}
    assert answer["strategy"] == "uniform"
    assert 0 < answer["step"] <= 260
    assert httpx.get(f"{url}/api/health").json() == {"status": "ok", "requests": 0}


def test_the_description_lists_all_routes_and_what_they_answer(url):
    found = httpx.get(f"{url}/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    for path, operations in found["paths"].items():
        for method in ("get", "post"):
            status = httpx.request(method, url + path).status_code
            assert (status == 405) == (method not in operations)
    assert len(found["paths"]) == 5
    assert {"400", "413", "422", "503", "504"} < set(found["paths"]["/api/translate"]["post"]["responses"])
    text = json.dumps(found)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in found["components"]["schemas"]
    assert "from" in found["components"]["schemas"]["Question"]["properties"]


# Many at once


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


# Limits


def test_the_queue_has_an_end(model):
    with serving(SlowTranslator(0.5), model, Limits(requests=3)) as url:
        answers = [answer for answer, _ in ask_all(url, [{"sentences": ["x"]}] * 8)]
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 5
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert "waiting" in refused.json()["error"]
        assert ask(url, sentences=["x"]).status_code == 200


def test_who_waits_too_long_is_told_and_the_rest_of_the_work_is_dropped(model):
    slow = SlowTranslator(0.4)
    with serving(slow, model, Limits(seconds=0.2, batch_sentences=1)) as url:
        answer = ask(url, sentences=["x"] * 100)
        assert answer.status_code == 504
        assert "0.2 seconds" in answer.json()["error"]
        time.sleep(0.5)
    assert len(slow.batches) <= 2


def test_work_for_a_client_that_has_gone_is_dropped(model):
    slow = SlowTranslator(0.2)
    with serving(slow, model, Limits(batch_sentences=1)) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/api/translate", json={"sentences": ["x"] * 100}, timeout=0.3)
        time.sleep(0.5)
        assert httpx.get(f"{url}/api/health").json()["requests"] == 0
    assert len(slow.batches) <= 4


@pytest.mark.parametrize("pieces", [30, 2000])
def test_a_large_body_is_refused_also_if_it_does_not_say_so(model, pieces):
    limits = Limits(body=10_000)
    with serving(SlowTranslator(), model, limits) as url:
        chunked = httpx.post(f"{url}/api/translate", content=(b" " * 1000 for _ in range(pieces)))
        whole = httpx.post(f"{url}/api/translate", content=b" " * 1000 * pieces)
    for answer in (chunked, whole):
        assert answer.status_code == 413
        assert "10000 bytes" in answer.json()["error"]


def test_a_body_that_does_not_come_is_not_waited_for(model):
    with serving(SlowTranslator(), model, Limits(seconds=0.2)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            connection.settimeout(10)
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_sentences_and_characters_have_limits(model):
    with serving(SlowTranslator(), model, Limits(sentences=3, characters=10)) as url:
        assert ask(url, sentences=["x" * 10] * 3).status_code == 200
        many, long = ask(url, text="x\n" * 4), ask(url, sentences=["x", "x" * 11])
    assert (many.status_code, many.json()["error"]) == (413, "4 sentences; a request may have 3, send several")
    assert (long.status_code, long.json()["error"]) == (413, "sentence 2: 11 characters; a sentence may have 10")


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
        ('{"from": "aa"}', 422, "sentences, text: give one"),
        ('{"from": "aa", "text": "x", "sentences": []}', 422, "sentences, text: give one"),
        ('{"from": "aa", "text": 1}', 422, "text: "),
        ('{"from": "aa", "sentences": ["x", null]}', 422, "sentences.1: "),
        ('{"from": "aa", "text": "x", "n_bset": 3}', 422, "n_bset: no such field; did you mean 'n_best'?"),
        ('{"from": "aa", "text": "x", "n_best": 0}', 422, "n_best: "),
        ('{"from": "aa", "text": "x", "n_best": 1.5}', 422, "n_best: "),
        ('{"from": "aa", "text": "x", "n_best": 6}', 422, "widen the beam"),
        ('{"from": "aa", "text": "x", "beam": 1000000}', 422, "beam: at most 20"),
        ('{"from": "xx", "text": "x"}', 422, "from: the model does not know 'xx'; known are aa, bb, cc"),
        ('{"from": "../aa", "text": "x"}', 422, "known are aa, bb, cc"),
        ('{"from": "aa", "to": "de", "text": "x"}', 422, "to: the model does not know 'de'; known are en"),
        ('{"text": "x"}', 422, "say from; known are aa-en, bb-en, cc-en"),
    ],
)
def test_mistakes_are_told_in_one_line(url, body, status, text):
    answer = httpx.post(f"{url}/api/translate", content=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert text in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_a_direction_it_was_not_trained_on(translator, monkeypatch):
    monkeypatch.setattr(translator, "directions", [Direction("aa", "en"), Direction("bb", "cc")])
    with pytest.raises(Exception, match="aa-cc: the model was not trained on this; known are aa-en, bb-cc"):
        choose_direction(translator, "cc", "aa")


def test_other_paths_and_methods(url):
    for path in ("/nope", "/api/health/", "/../../etc/passwd", "/static/x"):
        answer = httpx.get(url + path)
        assert answer.status_code == 404
        assert "nothing here" in answer.json()["error"]
    answer = httpx.get(f"{url}/api/translate")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "GET is not possible" in answer.json()["error"]


# Who may ask


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:5"])
def test_loopback_goes_by_its_names(url, host):
    headers = {"Host": host, "Origin": f"http://{host}".lower()}
    assert httpx.get(f"{url}/api/health", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "", "8.8.8.8"]
)
def test_another_name_is_refused(url, host):
    answer = httpx.get(f"{url}/api/health", headers={"Host": host})
    assert (answer.status_code, list(answer.json())) == (403, ["error"])


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["])
def test_a_page_from_elsewhere_is_refused(url, origin):
    answer = httpx.post(f"{url}/api/translate", json={"text": "x", "from": "aa"}, headers={"Origin": origin})
    assert (answer.status_code, list(answer.json())) == (403, ["error"])
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_names_can_be_given():
    assert allowed_host(True, ["mt.example"])("MT.example:80")
    assert not allowed_host(True, ["mt.example"])("other.example")
    assert allowed_host(False, [])("other.example")
    assert not allowed_host(False, ["mt.example"])("other.example")


def test_browsers_are_told_to_be_strict(url):
    for path in ("/", "/api/health", "/nope"):
        headers = httpx.get(url + path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


# The whole command


def test_a_taken_port_or_a_strange_one_is_told(run):
    with listen("127.0.0.1", 0) as taken, pytest.raises(ValueError, match="is taken; choose another with --port"):
        serve(run, port=taken.getsockname()[1])
    with pytest.raises(ValueError, match="expected 0 to 65535, got 70000"):
        serve(run, port=70000)
    with pytest.raises(ValueError, match="cannot listen on port 0 of no.such.host.invalid"):
        serve(run, host="no.such.host.invalid", port=0)


def test_without_the_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "evenglot.serve")
    with pytest.raises(ValueError, match=r'pip install "evenglot\[serve\]"'):
        __import__("evenglot.serve")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_lets_running_requests_finish(run, number):
    program = (
        "import sys, time; from pathlib import Path; from evenglot.evaluation.translate import Translator;"
        "from evenglot.serve import serve; old = Translator.stream;"
        "Translator.stream = lambda *rest: (time.sleep(1), old(*rest))[1];"
        "serve(Path(sys.argv[1]), port=0)"
    )
    command = [sys.executable, "-c", program, str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        url = process.stdout.readline().split(" at ")[1].split()[0]
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask(url, text=FOREIGN["aa"][0], **{"from": "aa"})))
        thread.start()
        while httpx.get(f"{url}/api/health").json()["requests"] == 0:
            time.sleep(0.02)
        process.send_signal(number)
        thread.join()
        rest = process.stdout.read()
    assert answers[0].status_code == 200
    assert (process.returncode, rest) == (0, "Stopped.\n")


# The page


class Translating(Browser):
    """A person at the page."""

    def open(self, url, width=1200, height=900, scheme="light"):
        super().open(url, width, height, scheme)
        self.wait("!!document.querySelector('#go:enabled, #error:not([hidden])')")

    def write(self, text):
        """Replace the source text as a person would."""
        self.run("document.getElementById('text').focus(); document.getElementById('text').select()")
        self.call("Input.insertText", text=text)

    def translated(self):
        self.wait("!document.getElementById('busy').checkVisibility()")
        return self.run("[...document.querySelectorAll('.best')].map((each) => each.textContent)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = start_browser(tmp_path_factory.mktemp("browser"), Translating)
    yield made
    made.close()


ERROR = "((at) => at.checkVisibility() ? at.textContent : '')(document.getElementById('error'))"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_a_person_can_translate(url, translator, browser, width, scheme):
    browser.open(url, width, scheme=scheme)
    assert browser.run("[...document.getElementById('from').options].map((o) => o.value)") == ["aa", "bb", "cc"]
    assert browser.run("[...document.getElementById('to').options].map((o) => o.value)") == ["en"]
    lines = [*FOREIGN["aa"][:5], "", *FOREIGN["aa"][5:40]]  # a long text, with an empty line
    browser.write("\n".join(lines))
    browser.press("Enter", 13, modifiers=2)
    browser.wait("document.querySelectorAll('.best').length === 41")
    assert browser.translated() == translator.translate(lines, source="aa")
    assert "41 sentences in" in browser.run("document.getElementById('status').textContent")
    assert browser.run(FITS)
    browser.run("document.querySelector('details summary').click()")
    assert browser.run("document.querySelectorAll('details[open] td').length") == 6


@pytest.mark.slow
def test_the_page_shows_mistakes_and_empty_text(url, browser):
    browser.open(url, 360)
    browser.write("  ")
    browser.run("document.getElementById('go').click()")
    assert "no text" in browser.run(ERROR)
    browser.write("x" * 6000)
    browser.run("document.getElementById('go').click()")
    browser.wait(f"{ERROR}.includes('6000 characters')")
    assert browser.run(FITS)
    browser.write("abc")
    browser.run("document.getElementById('go').click()")
    browser.wait("document.querySelectorAll('.best').length === 1")
    assert not browser.run(ERROR)


@pytest.mark.slow
def test_text_is_text_and_reads_in_its_own_direction(model, browser):
    class Echo(SlowTranslator):
        def stream(self, sentences, direction, options, warn):
            return iter([[Translation(text, -1.0)] for text in sentences])

    lines = ["שלום, עולם!", "مرحبا بالعالم", "<img src=x onerror='document.title=1'><b>bold</b>", "hello"]
    with serving(Echo(), model) as url:
        browser.open(url)
        browser.write("\n".join(lines))
        browser.run("document.getElementById('go').click()")
        browser.wait("document.querySelectorAll('.best').length === 4")
        assert browser.translated() == lines
        directions = "[...document.querySelectorAll('.best, #text')].map((each) => getComputedStyle(each).direction)"
        assert browser.run(directions) == ["rtl", "rtl", "rtl", "ltr", "ltr"]
        assert browser.run("document.querySelectorAll('#results b, #results img').length") == 0
        assert browser.run("document.title").startswith("Translate")
    browser.run("document.getElementById('go').click()")
    browser.wait(f"{ERROR}.includes('cannot be reached')")


@pytest.mark.slow
def test_only_directions_of_the_model_can_be_chosen(model, browser):
    several = model.model_copy(update={"directions": ["aa-en", "bb-en", "bb-zh_Hans"]})
    chosen = "[...document.getElementById('to').options].map((each) => each.textContent)"
    with serving(SlowTranslator(), several) as url:
        browser.open(url)
        assert browser.run(chosen) == ["English (en)"]
        browser.run(
            "document.getElementById('from').value = 'bb';"
            "document.getElementById('from').dispatchEvent(new Event('change'))"
        )
        assert browser.run(chosen) == ["English (en)", "Simplified Chinese (zh_Hans)"]
