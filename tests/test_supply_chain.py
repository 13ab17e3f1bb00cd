"""requirements.lock and docs/licences.md list every package that the dev extra brings, with hashes and licences."""

from __future__ import annotations

import re
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

import pytest

from tests.documents import ROOT

LEFT_OUT = {"torch"}


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    loader = SourceFileLoader("lock", str(ROOT / "scripts" / "lock"))
    spec = spec_from_loader("lock", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def installed(lock) -> set[str]:
    """What this environment has of the packages that the dev extra needs."""
    pytest.importorskip("packaging")
    return {name for name in lock.brought_by("dev") if lock.is_installed(name) and not name.startswith(lock.CUDA)}


def locked() -> dict[str, tuple[str, list[str]]]:
    """Version and hashes by package."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    assert len(entries) == sum(not line.startswith((" ", "#")) for line in text.splitlines())  # nothing else in it
    return {name: (version, re.findall("sha256:([0-9a-f]{64})", hashes)) for name, version, hashes in entries}


def listed() -> dict[str, list[str]]:
    """The rows of the table of licences."""
    text = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {name: rest for name, *rest in rows[2:]}


def test_no_dependency_is_missing_from_the_lock(installed):
    assert len(installed) > 100
    assert installed - LEFT_OUT <= locked().keys()


def test_the_versions_of_the_lock_are_those_that_pyproject_asks_for():
    requirements = pytest.importorskip("packaging.requirements")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    wanted = [each for each in map(requirements.Requirement, stated) if not each.name.startswith("evenglot")]
    versions = {name: version for name, (version, _) in locked().items()}
    found = [each for each in wanted if normal(each.name) in versions]
    assert len(found) > 20
    assert [str(each) for each in found if not each.specifier.contains(versions[normal(each.name)])] == []


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_no_dependency_is_missing_from_the_list_of_licences(installed):
    assert installed <= listed().keys() == locked().keys() | LEFT_OUT


def test_every_dependency_states_its_licence():
    assert [name for name, (*_, licence) in listed().items() if licence in ("", "not stated")] == []


def test_the_list_has_the_versions_of_the_lock():
    versions = {name: version for name, (version, _) in locked().items()}
    assert {name: row[0] for name, row in listed().items() if name in versions} == versions


def test_the_lock_names_no_host_and_no_folder():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text
    assert "/" not in "".join(line for line in text.splitlines() if not line.startswith("#"))
