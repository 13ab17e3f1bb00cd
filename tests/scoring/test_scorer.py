"""Scores are sacreBLEU's, exactly."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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
    arguments = ("-m", "bleu", "chrf", "ter", "--chrf-word-order", "2", "--tokenize", tokenize)
    theirs = sacrebleu(tmp_path, *arguments)
    for metric, name in {"bleu": "BLEU", "chrf": "chrF2++", "ter": "TER"}.items():
        assert found.scores[metric] == pytest.approx(theirs[name]["score"], abs=1e-11)
        assert scorer.signature[metric] == theirs[name]["signature"]
    assert set(scorer.signature) == set(found.scores) == {"bleu", "chrf", "ter"}
    assert found.lines == 4


def test_lines_must_match():
    with pytest.raises(ValueError, match="3 .*4 "):
        Scorer().score(HYPOTHESES[:3], REFERENCES)
    with pytest.raises(ValueError, match="references"):
        Scorer().score([], [])


def test_a_summary_has_the_mean_the_worst_and_both_halves():
    given = {"a-en": (10, 30), "b-en": (20, 20), "c-en": (60, 70)}
    scored = {name: DirectionScores({"bleu": bleu, "chrf": chrf}, 5) for name, (bleu, chrf) in given.items()}
    found = summary(scored, {"a-en": 5, "b-en": 500, "c-en": 50})
    assert found["macro"] == {"bleu": 30, "chrf": 40}
    assert found["worst"] == {"direction": "b-en", "bleu": 20, "chrf": 20}
    assert found["low_resource"] == {"directions": ["a-en"], "bleu": 10, "chrf": 30}
    assert found["high_resource"] == {"directions": ["b-en"], "bleu": 20, "chrf": 20}
    assert "low_resource" not in summary({"a-en": scored["a-en"]}, {})


def test_a_metric_that_a_direction_lacks_has_no_mean():
    loss = DirectionScores({"bleu": 10, "chrf": 30, "loss": 1.5}, 5)
    found = summary({"a-en": loss, "b-en": DirectionScores({"bleu": 20, "chrf": 40}, 5)}, {"a-en": 5, "b-en": 9})
    assert found["macro"] == {"bleu": 15, "chrf": 35}
    assert found["low_resource"] == {"directions": ["a-en"], "bleu": 10, "chrf": 30, "loss_per_character": 1.5}
    assert found["worst"] == {"direction": "a-en", "bleu": 10, "chrf": 30, "loss_per_character": 1.5}


def test_counts_of_the_model_are_scored_beside_those_of_the_text():
    found = Scorer().score(HYPOTHESES, REFERENCES, model_counts={"loss": np.array([[2.0, 1.0], [4.0, 19.0]])})
    assert list(found.scores) == ["bleu", "chrf", "ter", "loss"]
    assert found.as_json()["loss_per_character"] == pytest.approx(6 / 20)
