"""The commands as Python functions, from raw text to a report."""

import math
import subprocess
import sys

import pandas
import polars
import pytest

import evenglot
from evenglot.config import ConfigError, load_config
from evenglot.runs.run import RunError
from tests.corpus.conftest import configure, corpus
from tests.logs import json_events

__all__ = ["configure", "corpus"]  # fixtures

SMALL = ["model.dim=16", "model.heads=2", "model.ffn=32", "train.updates=6", "train.log_every=2", "train.device=cpu"]
SMALL += ["batches.tokens_per_batch=512", "batches.tokens_per_update=512", "batches.interval_pairs=100"]


@pytest.fixture
def settings(corpus, monkeypatch):
    """The configuration as a dictionary, whose paths are relative to the working directory."""
    monkeypatch.chdir(corpus)
    return {
        "data": {
            "directions": {"from": ["por", "rus", "glg"], "to": "en"},
            **{split: f"{split}.{{pair}}.{{lang}}.gz" for split in ("train", "valid", "test")},
        },
        "vocabulary": {"size_shared": 100, "size_other": 150},
        "store": {"valid_cap": 25},
    }


def test_from_raw_text_to_a_report(settings, corpus):
    store = evenglot.prepare(settings)
    assert store.sizes == {"por-en": 300, "rus-en": 120, "glg-en": 40}
    assert evenglot.prepare("conf.yaml").fingerprint == store.fingerprint, "a dictionary or a file: the same"
    runs = {
        name: evenglot.train(settings, f"runs/{name}", overrides=[*SMALL, f"balance.strategy={name}"])
        for name in ("proportional", "uniform")
    }
    scores = evenglot.score(runs["uniform"], beam=1)
    assert set(scores["directions"]) == set(store.sizes)
    evenglot.score("runs/proportional", beam=1)
    comparison = evenglot.compare(list(runs.values()), reference="uniform")
    assert [row.name for row in comparison.rows] == ["uniform", "proportional"]
    assert "| uniform" in str(comparison)
    page = evenglot.report([runs["uniform"], "ERM=runs/proportional"], out="two.html")
    assert "ERM" in page.read_text(encoding="utf-8")
    assert evenglot.report(runs["uniform"]).exists()
    assert len(evenglot.load(runs["uniform"]).translate(["o gato", "a casa"], source="por", to="en")) == 2


def test_a_run_continues_where_it_was(settings):
    evenglot.prepare(settings)
    evenglot.train(settings, "run", overrides=SMALL)
    with pytest.raises(RunError):
        evenglot.train(settings, "run", overrides=SMALL)
    run = evenglot.train(settings, "run", resume=True, overrides=[*SMALL, "train.updates=9"])
    assert run.frame("resume")["step"].tolist() == [6]
    assert run.frame("done")["step"].tolist() == [9]


def test_events_are_frames_of_either_library(settings):
    evenglot.prepare(settings)
    run = evenglot.train(settings, "run", overrides=SMALL)
    logged = [event for event in json_events(run.log_file) if event["event"] == "validation"]
    frame = run.frame("validation")
    assert isinstance(frame, pandas.DataFrame)
    assert frame["step"].tolist() == [event["step"] for event in logged]
    assert frame["loss.glg-en"].tolist() == [event["loss"]["glg-en"] for event in logged]
    means = frame[[f"loss.{name}" for name in ("por-en", "rus-en", "glg-en")]].mean(axis=1)
    assert all(math.isclose(*pair, rel_tol=1e-9) for pair in zip(means, frame["macro"], strict=True))
    other = run.frame("balance", library="polars")
    assert isinstance(other, polars.DataFrame)
    assert other["mixture.por-en"].len() == run.frame("balance").shape[0] > 0
    for kind, library in (("valdation", None), ("step", "numpy")):
        with pytest.raises(ValueError, match="validation|pandas"):
            run.frame(kind, library)
    with pytest.raises(RunError):
        evenglot.Run(run.folder / "nowhere").frame("step")


def test_bad_settings_name_the_key(settings, corpus):
    with pytest.raises(ConfigError, match=r"train\.updatez"):
        evenglot.train({**settings, "train": {"updatez": 3}}, "run")
    with pytest.raises(ValueError, match="^overrides:"):
        evenglot.prepare(load_config(corpus / "conf.yaml"), ["seed=3"])
    assert "train" not in settings, "the dictionary is not changed"


def test_importing_evenglot_loads_nothing_else():
    code = "import sys, evenglot; print(sorted({'torch', 'numpy', 'pydantic', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {"prepare", "train", "load", "score", "compare", "report"} <= set(dir(evenglot)) | set(evenglot.__all__)


def test_what_is_returned_says_what_it_is(settings):
    store = evenglot.prepare(settings)
    assert repr(store) == f"<Store {store.folder}: 3 directions, 460 training pairs>"
    run = evenglot.train(settings, "run", overrides=SMALL)
    assert repr(run) == "Run('run')"
    translator = evenglot.load(run)
    assert repr(translator) == "<Translator por-en, rus-en, glg-en>"
    with pytest.raises(TypeError, match="one"):
        translator.translate("o gato", source="por", to="en")


def test_a_folder_with_other_files_is_not_trained_in(settings, corpus):
    evenglot.prepare(settings)
    (corpus / "mine").mkdir()
    (corpus / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"thesis\.tex.*--out"):
        evenglot.train(settings, "mine", overrides=SMALL)
    assert [path.name for path in (corpus / "mine").iterdir()] == ["thesis.tex"]
    (corpus / "mine" / "thesis.tex").unlink()
    evenglot.train(settings, "mine", overrides=SMALL)


def test_verbosity_is_one_of_three(settings, capsys):
    with pytest.raises(ValueError, match="loud"):
        evenglot.set_verbosity("loud")
    evenglot.set_verbosity("quiet")
    try:
        evenglot.prepare(settings)
        evenglot.train(settings, "run", overrides=[*SMALL, "train.warmup=1000"])
    finally:
        evenglot.set_verbosity("normal")
    said = capsys.readouterr().err.splitlines()
    assert said, "warnings remain"
    assert all(line.startswith("warning") for line in said)
