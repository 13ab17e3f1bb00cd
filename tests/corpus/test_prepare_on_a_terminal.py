"""What `evenglot prepare` leaves on a terminal."""

import re
from io import StringIO

import pytest
from rich.console import Console

from evenglot.corpus import make_vocabulary
from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
from tests.screen import screen


def written(config):
    output = StringIO()
    prepare(config, Bars(Console(file=output, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm"})))
    return output.getvalue()


def test_every_stage_has_a_bar_and_none_is_left(configure):
    text = written(configure())
    assert "━" in text
    labels = ("reading", "learning vocabularies", "encoding")
    assert all(label in text for label in labels)
    left = screen(text)
    assert not any("━" in line for line in left)
    assert sum(line.startswith(labels) for line in left) <= len(labels)  # of long stages, a line each


@pytest.mark.parametrize(("sample", "least", "most"), [("null", 80, 120), ("100", 15, 30)])
def test_learning_vocabularies_begins_with_an_estimate(configure, monkeypatch, sample, least, most):
    """In proportion to the text that they are learned from."""
    monkeypatch.setitem(
        make_vocabulary.SECONDS_TO_LEARN, "unigram", 100 * 60 * make_vocabulary.TRAINING_THREADS / 32_000
    )
    monkeypatch.setattr(make_vocabulary, "cores", lambda: make_vocabulary.TRAINING_THREADS)
    found = re.search(r"learning vocabularies \(about (.*?)\)", written(configure(f"vocabulary.sample={sample}")))
    hours, minutes = re.search(r"(?:(\d+) h )?(\d+) min", found[1]).groups()
    assert least <= 60 * int(hours or 0) + int(minutes) <= most
