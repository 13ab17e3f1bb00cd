"""A small multilingual task on which a model can be trained in seconds: three ciphers of one language.

The fixtures are for all tests (conftest.py has them); what is heavy is imported when one is used.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from evenglot.config import Config

SIZES = {"aa": 600, "bb": 150, "cc": 50}  # training pairs; every language writes English words with letters of its own
HELD_OUT = 30
WORDS = [
    first + second for first in ("ba", "de", "fi", "go", "ku", "la", "mo") for second in ("nas", "rel", "tim", "su")
]
ALPHABET = "abcdefghijklmnopqrstuvwxyz"

CONFIG = """\
data:
  directions: {from: [aa, bb, cc], to: en}
  train: train.{pair}.{lang}
  valid: valid.{pair}.{lang}
  test: test.{pair}.{lang}
clean: {leakage: false}
vocabulary: {size_shared: 60, size_other: 90, character_coverage: 1.0}
balance: {strategy: proportional}
batches: {tokens_per_batch: 512, tokens_per_update: 1024}
model: {size: tiny, dim: 32, ffn: 64, encoder_layers: 1, decoder_layers: 1, heads: 2, dropout: 0.1}
train: {updates: 24, learning_rate: 5e-3, warmup: 10, schedule: constant, log_every: 4, threads: 1, device: cpu}
"""


def cipher(language: str) -> dict[int, int]:
    """The letters of a language: the alphabet, turned by a distance of its own."""
    turn = 3 + 5 * sorted(SIZES).index(language)
    return str.maketrans(ALPHABET, ALPHABET[turn:] + ALPHABET[:turn])


def write_corpora(folder: Path, sizes: dict[str, int] = SIZES) -> None:
    random = np.random.default_rng(7)
    for language, size in sizes.items():
        for split, count in {"train": size, "valid": HELD_OUT, "test": HELD_OUT}.items():
            english = [" ".join(random.choice(WORDS, random.integers(2, 7))) for _ in range(count)]
            foreign = [sentence.translate(cipher(language)) for sentence in english]
            for lang, lines in {"en": english, language: foreign}.items():
                (folder / f"{split}.{language}-en.{lang}").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="session")
def conf(tmp_path_factory) -> Path:
    """A config file whose store is prepared."""
    from evenglot.config import load_config
    from evenglot.corpus.prepare import prepare
    from evenglot.progress import Bars

    folder = tmp_path_factory.mktemp("task")
    write_corpora(folder)
    file = folder / "conf.yaml"
    file.write_text(CONFIG)
    prepare(load_config(file), Bars())
    return file


@pytest.fixture
def configure(conf):
    """The config of the task with some keys set: configure(balance={...}, train={...}); `balance` is replaced."""
    from evenglot.config import load_config

    def made(balance: dict | None = None, **sections: dict) -> Config:
        overrides = [f"balance={json.dumps(balance)}"] if balance is not None else []
        overrides += [
            f"{name}.{key}={json.dumps(value)}" for name, keys in sections.items() for key, value in keys.items()
        ]
        return load_config(conf, overrides, check_files=False)

    return made


@pytest.fixture(scope="session")
def run(conf, tmp_path_factory) -> Path:
    """The folder of a run, long enough for the model to have learnt something."""
    from evenglot.config import load_config
    from evenglot.training.train import train

    folder = tmp_path_factory.mktemp("runs") / "run"
    overrides = ["train.updates=260", "model.dropout=0.0", "balance.strategy=uniform"]
    train(load_config(conf, overrides, check_files=False), folder)
    return folder


@pytest.fixture(scope="session")
def translator(run):
    """That model."""
    from evenglot.inference.translate import load

    return load(run)
