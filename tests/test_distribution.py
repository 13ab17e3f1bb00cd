"""What is published: a small source distribution, and a wheel with all data files that can be built from it."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

import evenglot
from tests.documents import ROOT, links

SdistBuilder = pytest.importorskip("hatchling.builders.sdist", reason="in the dev extra").SdistBuilder
WheelBuilder = pytest.importorskip("hatchling.builders.wheel", reason="in the dev extra").WheelBuilder

MOST = 3_000_000  # bytes
DATA = [
    "evenglot/py.typed",
    "evenglot/data/tiny_webui/train.por-en.por.gz",
    "evenglot/recipes/tiny-webui.yaml",
    "evenglot/reporting/page/page.html",
    "evenglot/reporting/page/uPlot.iife.min.js",
    "evenglot/serve/page.html",
]


@pytest.fixture(scope="module")
def sources() -> set[str]:
    """Files of the source distribution, by their paths in the repository."""
    return {file.relative_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}


def package_files() -> set[str]:
    files = (path for path in (ROOT / "evenglot").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_source_distribution_has_the_package_the_tests_and_the_docs(sources):
    assert package_files() <= sources
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "Makefile", "mkdocs.yml"} <= sources
    assert {"scripts/setup", "tests/conftest.py", "tests/golden/chi2_projection.json", "docs/README.md"} <= sources


def test_the_source_distribution_has_whatever_its_docs_link_to(sources):
    folders = {parent.as_posix() for path in sources for parent in Path(path).parents}
    for page in (ROOT / "docs").rglob("*.md"):
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve().relative_to(ROOT).as_posix()
            assert target in sources | folders | {page.relative_to(ROOT).parent.as_posix()}, f"{page.name}: {link}"


def test_kept_results_and_their_test_stay_in_the_repository(sources):
    assert not [path for path in sources if path.startswith("experiments/") and "/results/" in path]
    assert "tests/test_experiments.py" not in sources


def test_a_wheel_with_all_data_can_be_built_from_a_small_source_distribution(tmp_path):
    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path / "sdist"))
    assert Path(archive).stat().st_size < MOST
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    (wheel,) = WheelBuilder(str(folder)).build(directory=str(tmp_path / "wheel"), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    assert package_files() | set(DATA) <= names
    assert {name.split("/")[0] for name in names} == {"evenglot", f"evenglot-{evenglot.__version__}.dist-info"}
