"""Scoring a run: only with the store it was trained on, and whatever its test set holds."""

import shutil
import sys
from pathlib import Path

import pytest

from evenglot.config import load_config
from evenglot.corpus.languages import identifier
from evenglot.corpus.prepare import prepare
from evenglot.inference.engines import SearchOptions
from evenglot.progress import Bars
from evenglot.runs.checkpoint import Checkpoint
from evenglot.runs.model import load_model
from evenglot.runs.run import Run, RunError
from evenglot.runs.scores import read_translations, scored_translations, translations_file
from evenglot.scoring.reference_loss import reference_losses
from evenglot.scoring.score_run import score_run
from evenglot.seals import checksums
from evenglot.training.train import train
from tests.counting import calls_of
from tests.tasks import CONFIG, HELD_OUT, write_corpora

QUICK = SearchOptions(1, max_length=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project of its own with a run of two updates; copy it before you change it."""
    folder = tmp_path_factory.mktemp("project")
    write_corpora(folder)
    for lang, line in {"aa": "ab " * 300, "en": "ba " * 300}.items():
        with (folder / f"test.aa-en.{lang}").open("a") as text:
            text.write(f"{line}\n")
    (folder / "conf.yaml").write_text(CONFIG + "store: {folder: store}\n")
    config = load_config(folder / "conf.yaml")
    prepare(config, Bars())
    overrides = ["train.updates=2", "model.max_positions=200"]
    train(load_config(folder / "conf.yaml", overrides), folder / "run")
    return folder


@pytest.fixture
def project(made, tmp_path):
    folder = Path(shutil.copytree(made, tmp_path / "project"))
    config = load_config(folder / "conf.yaml", ["train.updates=2", "model.max_positions=200"])
    config.save(folder / "run" / "config.yaml")
    return folder


def test_a_pair_that_is_too_long_for_the_model_does_not_count_in_the_loss(project):
    run = Run(project / "run")
    scores, store = score_run(run, "test", QUICK, Bars(), device="cpu")
    assert scores["directions"]["aa-en"]["loss_per_character"] > 0
    counts = reference_losses(load_model(run.best()), store, "aa-en", "test")
    assert (counts[:HELD_OUT] > 0).all()
    assert (counts[HELD_OUT:] == 0).all()
    assert len(counts) == HELD_OUT + 1


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_the_checkpoint_is_read_once(project, monkeypatch, engine):
    reads = calls_of(monkeypatch, Checkpoint, "read")
    scores, _ = score_run(Run(project / "run"), "test", QUICK, Bars(), engine=engine, device="cpu")
    assert [each.step for (each,) in reads] == [scores["made"]["step"]] == [2]


def test_a_direction_of_which_no_pair_fits_has_no_loss(project):
    run = Run(project / "run")
    for lang, line in {"aa": "ab " * 300, "en": "ba " * 300}.items():
        (project / f"test.aa-en.{lang}").write_text(f"{line}\n" * 3)
    prepare(load_config(project / "conf.yaml"), Bars())
    scores, _ = score_run(run, "test", QUICK, Bars(), device="cpu")
    assert "loss_per_character" not in scores["directions"]["aa-en"]
    assert scores["directions"]["bb-en"]["loss_per_character"] > 0
    assert scores["made"]["left_out"] == 3


def test_a_store_that_was_prepared_anew_with_another_vocabulary_is_refused(project):
    text = project / "train.aa-en.en"
    text.write_text(text.read_text().replace("ba", "zzwx"))
    prepare(load_config(project / "conf.yaml"), Bars())
    run = Run(project / "run")
    with pytest.raises(RunError, match="vocabulary.*--hypotheses"):
        score_run(run, "test", QUICK, Bars(), device="cpu")
    assert not (run.folder / "scores.json").exists()
    assert not (run.folder / "hypotheses").exists()


def test_an_unknown_tokenizer_is_refused_before_anything_is_translated(project):
    run = Run(project / "run")
    with pytest.raises(ValueError, match="^tokenize: .*flores200.*'xx'"):
        score_run(run, "test", QUICK, Bars(), tokenize="xx", device="cpu")
    assert not (run.folder / "hypotheses").exists()


def test_translations_are_those_that_were_scored(project):
    run = Run(project / "run")
    scores, _ = score_run(run, "test", QUICK, Bars(), device="cpu")
    scored = scored_translations(run, "test")
    assert scored == scores["translations"] == checksums(run.folder / "hypotheses" / "test")
    assert len(read_translations(run, "test", "aa-en", scored)) == HELD_OUT + 1
    file = translations_file(run, "test", "aa-en")
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(ValueError, match=f"{file}: changed.*`evenglot score`"):
        read_translations(run, "test", "aa-en", scored)
    file.unlink()
    for known in (scored, {}):
        with pytest.raises(ValueError, match=f"{file}: .*`evenglot score`"):
            read_translations(run, "test", "aa-en", known)


def test_missing_language_identification_is_said_once(project, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "py3langid", None)  # whoever imports it gets a ModuleNotFoundError
    identifier.cache_clear()
    try:
        scores, _ = score_run(Run(project / "run"), "test", QUICK, Bars())
    finally:
        identifier.cache_clear()
    assert capsys.readouterr().err.count('"evenglot[langid]"') == 1
    assert not any("off_target" in direction for direction in scores["directions"].values())
