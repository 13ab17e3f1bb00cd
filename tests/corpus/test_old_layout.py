"""Stores of the earlier layout, with a folder of files for each direction and split, can still be used.

`old_layout.tar.xz` was written by the version before bundles, from the text that `corpus` writes below.
"""

import tarfile
from pathlib import Path

import pytest

from evenglot.config import load_config
from evenglot.corpus.artefacts import DamagedError
from evenglot.corpus.prepare import prepare
from evenglot.corpus.store import open_store
from evenglot.progress import Bars
from evenglot.training.train import train
from tests.corpus.conftest import sentences

ARCHIVE = Path(__file__).with_name("old_layout.tar.xz")
FINGERPRINT = "2e94572e4dbba74d"  # as that version computed it

CONFIG = """
data:
  directions: {from: [por, glg], to: en}
  train: train.{pair}.{lang}
  valid: valid.{pair}.{lang}
  test: test.{pair}.{lang}
vocabulary: {kind: joint, size_joint: 90}
store: {valid_cap: 10, folder: store}
model: {size: tiny, dim: 16, heads: 2, ffn: 16}
train: {updates: 2, device: cpu}
"""


@pytest.fixture
def corpus(tmp_path):
    for language, size in (("por", 60), ("glg", 30)):
        for split, start, count in (("train", 0, size), ("valid", 1000, 12), ("test", 2000, 8)):
            for side in (language, "en"):
                text = "\n".join(sentences(side, start, count)) + "\n"
                (tmp_path / f"{split}.{language}-en.{side}").write_text(text, encoding="utf-8")
    (tmp_path / "conf.yaml").write_text(CONFIG)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_it_has_the_content_and_the_fingerprint_of_a_new_one(corpus):
    old = open_store(corpus / "store")
    assert sorted(path.name for path in old.folder.glob("train/*/*.ids"))  # one file a direction and side
    new = prepare(load_config(corpus / "conf.yaml", ["store.folder=new"]), Bars())
    assert old.fingerprint == new.fingerprint == FINGERPRINT
    assert old.sizes == new.sizes == {"por-en": 60, "glg-en": 30}
    for direction in old.directions:
        assert old.splits(direction) == new.splits(direction)
        assert old.text(direction, "test", "target") == new.text(direction, "test", "target")
        for split in old.splits(direction):
            for side in ("source", "target"):
                one, other = (getattr(store.corpus(direction, split), side) for store in (old, new))
                assert one.ids.tolist() == other.ids.tolist()
                assert one.offsets.tolist() == other.offsets.tolist()


def test_it_can_be_trained_on(corpus):
    train(load_config(corpus / "conf.yaml"), corpus / "run")
    assert (corpus / "run" / "log.jsonl").exists()


def test_damage_is_noticed(corpus):
    victim = next((corpus / "store" / "train").glob("por-en.*/source.ids"))
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises(DamagedError, match="train/por-en"):
        open_store(corpus / "store")


def test_preparing_it_anew_leaves_nothing_of_the_old_layout(corpus):
    store = prepare(load_config(corpus / "conf.yaml"), Bars())  # the text has other times
    assert store.fingerprint == FINGERPRINT
    folders = [path.name.split(".")[0] for path in store.folder.iterdir() if path.is_dir()]
    assert sorted(folders) == ["held_out", "scan", "train", "vocabulary"]
