"""The way from a prepared store to a trained model."""

import pytest

from evenglot.training.log import read_log
from evenglot.training.run import Run, load_model
from evenglot.training.train import train


def events(run, name):
    return [event for event in read_log(run / "log.jsonl") if event["event"] == name]


def test_a_run_leaves_a_readable_folder(configure, tmp_path):
    assert train(configure(), tmp_path / "run") == "updates"
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {
        "config.yaml",
        "log.jsonl",
        "checkpoints",
        "vocabulary",
    }
    losses = [event["loss"] for event in events(tmp_path / "run", "step")]
    assert losses[-1] < losses[0]
    best = Run(tmp_path / "run").best()
    assert load_model(best).shape.dim == 32


def test_overrides_of_balance(configure, tmp_path):
    config = configure({"strategy": "temperature", "tau": 5}, train={"updates": 3})
    train(config, tmp_path / "run")
    mixture = events(tmp_path / "run", "interval")[0]["mixture"]
    assert mixture["cc-en"] == pytest.approx(50**0.2 / sum(n**0.2 for n in (600, 150, 50)))
