"""A run translates with its own vocabularies or not at all."""

import json
import os
import shutil
from hashlib import sha256

import pytest

from evenglot.corpus.artefacts import DamagedError
from evenglot.corpus.vocabulary import train_vocabulary
from evenglot.export import huggingface
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import load
from evenglot.progress import Bars
from evenglot.runs.checkpoint import _digest_of
from evenglot.runs.run import Run
from evenglot.scoring.score_run import score_run
from tests.tasks import WORDS


@pytest.fixture
def copied(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    return Run(tmp_path / "run")


def other_model(content):
    return train_vocabulary([" ".join(WORDS)] * 50, size=40, tags=[], model="bpe")


def flipped(content):
    return bytes([*content[:-9], content[-9] ^ 1, *content[-8:]])


DAMAGE = {"emptied": lambda _: b"", "cut": lambda content: content[:1000], "swapped": other_model, "flipped": flipped}


def damage(run, side, how):
    file = run.vocabulary_file(side)
    file.write_bytes(DAMAGE[how](file.read_bytes()))
    return file


def forget_hashes(run):
    """Like a run of an earlier version."""
    for file in run.checkpoints.glob("*/state.json"):
        about = json.loads(file.read_text())
        del about["checksum"], about["state"]["vocabulary"]
        file.write_text(json.dumps({**about, "checksum": _digest_of(about)}))


def test_checkpoints_know_the_vocabularies_of_their_run(run):
    files = [Run(run).vocabulary_file(side) for side in ("source", "target")]
    hashes = {file.name: sha256(file.read_bytes()).hexdigest() for file in files}
    states = [json.loads(file.read_text())["state"] for file in (run / "checkpoints").glob("*/state.json")]
    assert states
    assert all(state["vocabulary"] == hashes for state in states)


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_changed_vocabulary_is_refused(copied, side, how):
    file = damage(copied, side, how)
    with pytest.raises(DamagedError) as caught:
        load(copied.folder)
    assert caught.value.path == file


def test_a_pipe_in_its_place_is_not_waited_for(copied):
    file = copied.vocabulary_file("target")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(DamagedError, match="not a regular file") as caught:
        load(copied.folder)
    assert caught.value.path == file


def test_it_is_refused_by_all_that_read_it(copied, tmp_path):
    file = damage(copied, "target", "flipped")
    for use in (
        lambda: score_run(copied, "test", SearchOptions(1), Bars()),
        lambda: huggingface.export(copied, tmp_path / "export"),
        lambda: load(copied.folder, engine="ctranslate2"),
    ):
        with pytest.raises(DamagedError) as caught:
            use()
        assert caught.value.path == file
    assert not (tmp_path / "export").exists()


def test_a_missing_one_is_named(copied):
    copied.vocabulary_file("source").unlink()
    with pytest.raises(DamagedError) as caught:
        load(copied.folder)
    assert caught.value.path == copied.vocabulary_file("source")


def test_runs_without_hashes_still_translate(copied, translator):
    forget_hashes(copied)
    assert load(copied.folder).translate(["abc"], source="aa") == translator.translate(["abc"], source="aa")


@pytest.mark.parametrize("how", ["emptied", "cut", "swapped"])
def test_without_hashes_a_vocabulary_must_fit_the_model(copied, how):
    forget_hashes(copied)
    file = damage(copied, "source", how)
    with pytest.raises(DamagedError) as caught:
        load(copied.folder)
    assert caught.value.path == file
