"""What the rows of a comparison are called."""

import os
from pathlib import Path

import pytest

from evenglot.comparison.run_names import named_runs


def names(*arguments):
    return [name for name, _ in named_runs(arguments)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_is_called_by_what_sets_its_path_apart(here):
    assert names("runs/erm", "runs/chi") == ["erm", "chi"]
    assert names("a/erm/x", "b/erm/x") == ["a/erm/x", "b/erm/x"]
    assert names("runs/erm", str(here / "runs" / "chi")) == ["erm", "chi"]
    assert names("runs/erm/", "./runs/../runs/chi") == ["erm", "chi"]


def test_seeds_of_one_strategy_share_its_name(here):
    assert names("runs/erm/seed-1", "runs/erm/seed-2", "runs/chi/seed-1") == ["erm", "erm", "chi"]
    assert names("runs/erm/seed-1", "runs/erm/seed-2") == ["erm", "erm"]
    assert names("runs/erm/seed-x", "runs/chi/seed-x") == ["erm/seed-x", "chi/seed-x"]  # no number


def test_one_run_is_called_as_its_folder(here):
    assert names("runs/erm") == ["erm"]
    assert names("runs/erm/seed-3") == ["erm"]


def test_a_name_can_be_given(here):
    assert named_runs(["plain=runs/erm", "runs/chi", "dro=runs/group=dro"]) == [
        ("plain", Path("runs/erm")),
        ("chi", Path("runs/chi")),
        ("dro", Path("runs/group=dro")),
    ]
    assert names("erm=a/seed-1", "erm=b/seed-2") == ["erm", "erm"]


def test_a_folder_with_an_equals_sign_is_a_folder(here):
    (here / "runs" / "rho=0.1").mkdir(parents=True)
    assert named_runs(["runs/rho=0.1"]) == [("rho=0.1", Path("runs/rho=0.1"))]
    assert named_runs(["chi=runs/rho=0.1"]) == [("chi", Path("runs/rho=0.1"))]


def test_the_same_run_twice_is_one_row(here):
    assert names("runs/erm", "runs/erm") == ["erm", "erm"]


def test_a_run_inside_another_has_a_name_too(here):
    assert names("runs/chi", "runs/chi/reference") == ["chi", "chi/reference"]


def test_also_where_the_outer_one_is_a_seed_or_the_working_folder(here):
    assert names("chi/seed-1", "chi/seed-1/reference") == ["chi", "chi/seed-1/reference"]
    os.mkdir("chi")
    os.chdir("chi")
    assert names(".", "reference") == ["chi", "chi/reference"]
