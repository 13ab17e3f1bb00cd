"""The task of tasks.py for pretrained models: a prepared store and a tiny checkpoint of each kind."""

import json
import shutil
from functools import cache

import pytest

from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
from tests.checkpoints import CODES, save_checkpoint
from tests.tasks import CONFIG, SIZES, write_corpora

OURS = "model: {size: tiny, dim: 32, ffn: 64, encoder_layers: 1, decoder_layers: 1, heads: 2, dropout: 0.1}"


def write_config(folder, kind):
    """A config file beside the text and the checkpoint of this kind."""
    text = CONFIG.replace(OURS, "model: {init: init}").replace("leakage: false", "leakage: false, max_pieces: 30")
    file = folder / "conf.yaml"
    file.write_text(text.replace("data:\n", f"data:\n  codes: {json.dumps(CODES[kind])}\n"))
    return file


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """prepared("nllb"): a config file whose store is prepared; one of each kind for all tests."""

    @cache
    def make(kind):
        folder = tmp_path_factory.mktemp(kind)
        write_corpora(folder, dict.fromkeys(SIZES, 60))
        save_checkpoint(kind, folder / "init")
        file = write_config(folder, kind)
        prepare(load_config(file), Bars())
        return file

    return make


def configured(file, *overrides):
    return load_config(file, ["train.updates=3", "train.warmup=2", *overrides])


def copied(file, folder):
    """The same, to be changed."""
    shutil.copytree(file.parent, folder)
    return folder / file.name
