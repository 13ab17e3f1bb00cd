"""Adding a language to a trained run keeps what it knew, if the old text is trained on, too (docs/finetuning.md)."""

from pathlib import Path

import numpy as np
import pytest

import evenglot
from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import Run
from evenglot.scoring.reference_loss import reference_losses
from evenglot.training.train import train

CORPUS = Path(evenglot.__file__).parent / "data" / "tiny_webui"
OLD, NEW = ("por-en", "tur-en", "ces-en"), "slk-en"
CONFIG = """\
data: {{directions: [{directions}], train: "{corpus}/train.{{pair}}.{{lang}}.gz",
       valid: "{corpus}/valid.{{pair}}.{{lang}}.gz", test: "{corpus}/test.{{pair}}.{{lang}}.gz"}}
store: {{folder: {name}-store}}
balance: {{strategy: uniform}}
batches: {{tokens_per_batch: 1024, tokens_per_update: 1024}}
{more}
train: {{updates: {updates}, learning_rate: {rate}, warmup: 50, schedule: constant, threads: 1, device: cpu}}
"""
FIRST = """\
vocabulary: {size_shared: 800, size_other: 1600}
model: {size: tiny, dim: 64, ffn: 128, dropout: 0.1}"""


def trained(folder, name, directions, more, updates, rate):
    """The model after the last update of a run, and the store of its data."""
    file = folder / f"{name}.yaml"
    listed = ", ".join(directions)
    file.write_text(CONFIG.format(directions=listed, corpus=CORPUS, name=name, more=more, updates=updates, rate=rate))
    config = load_config(file)
    store = prepare(config, Bars())
    train(config, folder / name)
    return load_model(Run(folder / name).choose("last")), store


def losses(model, store, names):
    """Test loss per character of each direction, in nats."""
    found = {name: reference_losses(model, store, name, "test").sum(0) for name in names}
    return {name: float(loss / characters) for name, (loss, characters) in found.items()}


@pytest.mark.slow
def test_old_languages_lose_less_than_with_the_new_one_alone(tmp_path):
    before, _ = trained(tmp_path, "old", OLD, FIRST, 800, 2e-3)
    more = "model: {init: old}"
    both, store = trained(tmp_path, "both", (*OLD, NEW), more, 160, 2e-3)
    alone, its_store = trained(tmp_path, "alone", (NEW,), more, 160, 2e-3)
    assert store.vocabulary_hashes == its_store.vocabulary_hashes  # so all models read the same ids
    known = load_model(Run(tmp_path / "old").best())
    assert known.shape.source_pieces == both.shape.source_pieces - 1
    old_store = prepare(load_config(tmp_path / "old.yaml"), Bars())
    found = {
        "before": losses(before, old_store, OLD),
        "both": losses(both, store, (*OLD, NEW)),
        "alone": losses(alone, store, (*OLD, NEW)),
    }
    print(found)  # with pytest -s: the numbers of docs/finetuning.md
    kept, lost = (np.mean([found[run][name] - found["before"][name] for name in OLD]) for run in ("both", "alone"))
    assert kept < 0 < 0.05 < lost  # nats per character: the old languages still gain; the new one alone erases them
    assert all(found["both"][name] < found["alone"][name] for name in OLD)
