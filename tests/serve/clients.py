"""A real server in a thread, and those who ask it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from evenglot.directions import Direction
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Translation
from evenglot.serve import Limits, listen, prepared
from tests.patience import PATIENCE
from tests.tasks import WORDS, cipher
from tests.web import get, post

SENTENCES = [" ".join(np.random.default_rng(seed).choice(WORDS, 1 + seed % 6)) for seed in range(200)]
FOREIGN = {language: [sentence.translate(cipher(language)) for sentence in SENTENCES] for language in ("aa", "bb")}


@contextmanager
def serving(translator, model, limits=Limits(seconds=PATIENCE), names=()):  # noqa: B008, frozen
    """The address of a server that runs in a thread."""
    with listen("127.0.0.1", 0) as listening, prepared(translator, model, listening, limits, names) as made:
        if isinstance(translator, Held):
            translator.asked = 0  # by the description of the API, for its languages
        thread = threading.Thread(target=made.run, kwargs={"sockets": [listening]})
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.start()
        try:
            yield url
        finally:
            made.should_exit = True
            thread.join()


class Held:
    """Translates in upper case, one batch after the other, each when the test lets it; writes down what was in them."""

    def __init__(self, held=True):
        self.directions, self.batches, self._let_go = [Direction("aa", "en")], [], threading.Event()
        self.asked = 0
        if not held:
            self.let_go()

    def let_go(self):
        self._let_go.set()

    def direction(self, to=None, source=None):
        """Asked for when a request has arrived in full, just before it joins the queue."""
        self.asked += 1
        return self.directions[0]

    def stream(self, sentences, direction, options, warn):
        self.batches.append(list(sentences))
        assert self._let_go.wait(PATIENCE)
        if "poison" in sentences:
            raise RuntimeError("the model broke")
        return iter([[Translation(text.upper(), -1.0)] for text in sentences])


def ask(url, **question):
    return post(f"{url}/api/translate", json=question)


@contextmanager
def asking(url, questions):
    """Ask all of them at once. Futures of the answers; when the block ends, all are there."""
    with ThreadPoolExecutor(len(questions)) as people:
        yield [people.submit(ask, url, **question) for question in questions]


def waiting(url):
    """How many requests wait for their answer."""
    return get(f"{url}/api/health").json()["requests"]


def wait_until(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "nothing happens"
        time.sleep(0.01)


def expected(translator, sentences, language, n_best=1, beam=5):
    options = SearchOptions(beam=beam, n_best=n_best)
    return list(translator.stream(sentences, translator.direction("en", language), options))


def assert_same(answer, wanted):
    """The same texts; scores up to what the order of additions changes in 32 bits."""
    for found, meant in zip(answer["translations"], wanted, strict=True):
        assert [each["text"] for each in found] == [each.text for each in meant]
        assert [each["score"] for each in found] == pytest.approx([each.score for each in meant], abs=1e-4)
