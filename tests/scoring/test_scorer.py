"""Scores are sacreBLEU's, exactly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evenglot.scoring.off_target import CODES, _identifier, off_target_rate
from evenglot.scoring.scorer import DirectionScores, Scorer
from evenglot.scoring.summary import summary

HYPOTHESES = ["the cat sat on the mat", "hello there , world !", "", "a translation that is quite wrong"]
REFERENCES = ["the cat sat on a mat", "Hello there, world!", "nothing", "this is the right one"]


def sacrebleu(folder, *arguments):
    """The command line of sacreBLEU on files."""
    for name, lines in {"hyp": HYPOTHESES, "ref": REFERENCES}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    command = [
        Path(sys.executable).with_name("sacrebleu"),
        folder / "ref",
        "-i",
        folder / "hyp",
        "-w",
        "12",
        *arguments,
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return {row["name"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_they_equal_the_command_line(tmp_path, tokenize):
    scorer = Scorer(tokenize)
    found = scorer.score(HYPOTHESES, REFERENCES)
    arguments = ("-m", "bleu", "chrf", "--chrf-word-order", "2", "--tokenize", tokenize)
    theirs = sacrebleu(tmp_path, *arguments)
    assert found.bleu == pytest.approx(theirs["BLEU"]["score"], abs=1e-11)
    assert found.chrf == pytest.approx(theirs["chrF2++"]["score"], abs=1e-11)
    assert scorer.signature["bleu"] == theirs["BLEU"]["signature"]
    assert scorer.signature["chrf"] == theirs["chrF2++"]["signature"]
    assert found.lines == 4


def test_lines_must_match():
    with pytest.raises(ValueError, match="3 translations, but 4 references"):
        Scorer().score(HYPOTHESES[:3], REFERENCES)
    with pytest.raises(ValueError, match="no references"):
        Scorer().score([], [])


def test_a_summary_has_the_mean_the_worst_and_both_halves():
    scored = {
        "a-en": DirectionScores(10, 30, 5),
        "b-en": DirectionScores(20, 20, 5),
        "c-en": DirectionScores(60, 70, 5),
    }
    found = summary(scored, {"a-en": 5, "b-en": 500, "c-en": 50})
    assert found["macro"] == {"bleu": 30, "chrf": 40}
    assert found["worst"] == {"direction": "b-en", "bleu": 20, "chrf": 20}
    assert found["low_resource"] == {"directions": ["a-en"], "bleu": 10, "chrf": 30}
    assert found["high_resource"] == {"directions": ["b-en"], "bleu": 20, "chrf": 20}
    assert "low_resource" not in summary({"a-en": scored["a-en"]}, {})


def test_translations_in_another_language_are_noticed():
    english = ["This is a sentence in the English language.", "He went to the market and bought some bread."]
    german = ["Das ist ein Satz in deutscher Sprache.", "Er ging auf den Markt und kaufte Brot."]
    for code in ("en", "eng", "en_US"):
        assert off_target_rate(english, code) == 0
        assert off_target_rate(german, code) == 1
    assert off_target_rate([*english, *german, ""], "deu") == 0.5
    assert off_target_rate(english, "xyz") is None
    assert off_target_rate([""], "en") is None


def test_every_language_of_the_identifier_that_has_two_letters_has_three_as_well():
    labels = {str(label) for label in _identifier().labels}
    assert {label for label in labels if len(label) == 2} <= set(CODES)
