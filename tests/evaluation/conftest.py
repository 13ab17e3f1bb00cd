"""A model that was really trained, on the small task of the training tests."""

import pytest

from evenglot.config import load_config
from evenglot.evaluation.translate import load
from evenglot.training.train import train
from tests.training.conftest import conf

__all__ = ["conf"]


@pytest.fixture(scope="session")
def run(conf, tmp_path_factory):
    """The folder of a run, long enough for the model to have learnt the larger languages."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    config = load_config(
        conf, ["train.updates=260", "model.dropout=0.0", "balance.strategy=uniform"], check_files=False
    )
    train(config, folder)
    return folder


@pytest.fixture(scope="session")
def translator(run):
    return load(run)
