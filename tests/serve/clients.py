"""A real server in a thread, and those who ask it."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from evenglot.directions import Direction
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Translation
from evenglot.serve import Limits, listen, prepared
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
