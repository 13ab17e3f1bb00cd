"""`evenglot doctor`: what is installed and works."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.extras import EXTRAS, missing
from evenglot.preview import doctor
from evenglot.preview.doctor import Check, attempt, doctor_table
from evenglot.preview.smoke import Runs, Size, smoke

ROOT = Path(__file__).parents[2]
SMALL = Size("cpu", "tiny", 24, 256, 4, 300, ("float32",))


def command(*options):
    return CliRunner().invoke(app, ["doctor", *options])


def test_everything_of_the_test_environment_works():
    found = {check.what: check for check in doctor.doctor()}
    assert {check.state for check in found.values()} <= {"ok", "absent"}
    for what in ("SentencePiece", "gloo group of 2 processes", "CTranslate2", "float32 products", "extra train"):
        assert found[what].state == "ok", found[what]
    assert found["GPUs"].state == ("ok" if torch.cuda.is_available() else "absent")


def test_extras_are_those_of_the_distribution():
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["optional-dependencies"]
    for extra in ("dev", "docs"):
        del declared[extra]
    names = {
        extra: {Requirement(each).name for each in packages} - {"evenglot"} for extra, packages in declared.items()
    }
    assert names == {extra: set(packages) for extra, packages in EXTRAS.items()}


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "EXTRAS", {"train": ("torch",), "ray": ("no-such-package",)})
    train, ray = doctor.installed()
    assert (train.state, ray.state) == ("ok", "absent")
    assert torch.__version__ in train.details
    assert "evenglot[ray]" in ray.details


def fails(error):
    raise error


@pytest.mark.parametrize(
    ("error", "state"),
    [(ValueError("first\nlast [x]"), "wrong"), (RuntimeError(), "wrong"), (missing("ct2", "ctranslate2"), "absent")],
)
def test_an_error_is_a_finding(error, state):
    check = attempt("it", lambda: fails(error))
    assert check.state == state
    assert len(check.details.splitlines()) == 1
    doctor_table([check])  # brackets are not markup


def test_what_is_wrong_is_said_and_the_exit_code_is_2(monkeypatch):
    monkeypatch.setattr(doctor, "doctor", lambda: iter([Check("this", "ok"), Check("that", "wrong", "broken")]))
    done = command()
    assert isinstance(done.exception, ValueError)
    assert str(done.exception) == "that: broken"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_tests_are_skipped():
    done = command("--gpu")
    assert done.exit_code == 0
    assert "skipped" in done.stdout


# ---------------------------------------------------------------------------------------------------- short runs


@pytest.mark.slow
def test_the_runs_of_the_gpu_test_agree_on_a_cpu():
    found = {check.what: check for check in smoke(2, SMALL)}
    assert {check.state for check in found.values()} == {"ok"}, found
    assert list(found) == ["training in float32", "exact resume", "2 processes (ddp)", "2 processes (fsdp)"]
    assert "tokens/s" in found["training in float32"].details
    assert found["exact resume"].details == "bit-identical weights"


@pytest.mark.slow
def test_a_run_that_fails_says_why(tmp_path):
    runs = Runs(tmp_path, SMALL)
    check = attempt("it", lambda: str(runs._train("run", ["train.learning_rate=1e30"])))
    assert check.state == "wrong"
    assert "not finite" in check.details
