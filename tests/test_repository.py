"""The files around the code agree with it: the site's navigation, the citation, the workflow, the issue forms."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

import evenglot
from evenglot import yaml12
from tests.documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = ["bug", "feature"]


def read(path: str) -> Any:
    value, _ = yaml12.parse((ROOT / path).read_text(encoding="utf-8"))
    return value


# ---------------------------------------------------------------------------------------------------------- the site


def leaves(nav: list[Any]) -> Iterator[str]:
    """All pages and addresses of a navigation, however deeply nested."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            (target,) = entry.values()
            yield from [target] if isinstance(target, str) else leaves(target)


def test_the_navigation_lists_every_page_once():
    listed = [leaf for leaf in leaves(read("mkdocs.yml")["nav"]) if "://" not in leaf]
    docs = ROOT / "docs"
    assert sorted(listed) == sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))


def test_addresses_in_the_navigation_are_files_of_the_repository():
    site = read("mkdocs.yml")
    start = f"{site['extra']['repository']}/blob/main/"
    addresses = [leaf for leaf in leaves(site["nav"]) if "://" in leaf]
    assert addresses
    for address in addresses:
        assert address.startswith(start)
        assert (ROOT / address.removeprefix(start)).is_file()


def test_the_site_takes_nothing_from_the_network():
    site = read("mkdocs.yml")
    assert site["theme"]["font"] is False
    assert "repo_url" not in site  # the theme would ask GitHub for stars
    assert not any("://" in str(site.get(key)) for key in ("extra_css", "extra_javascript", "plugins"))
    for path in site["hooks"]:
        assert (ROOT / path).is_file()


def test_api_pages_name_modules_that_exist():
    pages = sorted((ROOT / "docs" / "api").glob("*.md"))
    modules = {module for page in pages for module in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)}
    assert {"evenglot", "evenglot.balance", "evenglot.robust"} <= modules
    for module in modules:
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file(), module


# ---------------------------------------------------------------------------------------------- citation and metadata


def test_the_citation_is_of_this_version_and_names_the_paper():
    citation = read("CITATION.cff")
    assert citation["version"] == evenglot.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Zhou", "Levy", "Li", "Ghazvininejad", "Neubig"]
    assert (paper["title"], paper["year"]) == ("Distributionally Robust Multilingual Machine Translation", 2021)


def test_addresses_of_the_project_are_of_one_repository():
    repository = read("mkdocs.yml")["extra"]["repository"]
    assert all(address.startswith(repository) for address in PROJECT["urls"].values())


# --------------------------------------------------------------------------------------------------------- on GitHub


def test_the_workflow_tests_every_python_we_declare_on_three_systems():
    jobs = read(".github/workflows/ci.yml")["jobs"]
    versions = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert versions == jobs["test"]["strategy"]["matrix"]["python"] == jobs["core"]["strategy"]["matrix"]["python"]
    systems = {jobs["test"]["runs-on"], *jobs["core"]["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_the_workflow_names_targets_and_tests_that_exist():
    jobs = read(".github/workflows/ci.yml")["jobs"]
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"lint", "docs"} <= set(re.findall(r"\bmake ([a-z-]+)", commands)) <= targets
    paths = re.findall(r"\b(?:tests|scripts)/\S+", commands)
    assert paths
    assert all((ROOT / path).exists() for path in paths)


@pytest.mark.parametrize("name", FORMS)
def test_an_issue_form_asks_different_questions(name):
    form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"]
    assert form["description"]
    questions = [field["id"] for field in form["body"]]
    assert len(questions) == len(set(questions)) > 1
    assert all(field["attributes"]["label"] for field in form["body"])


def test_no_issue_form_is_overlooked():
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    assert {file.stem for file in folder.glob("*.yml")} == {*FORMS, "config"}
    assert read(".github/ISSUE_TEMPLATE/config.yml")["contact_links"]


def test_hooks_for_commits_are_pinned():
    repositories = read(".pre-commit-config.yaml")["repos"]
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", repository["rev"]) for repository in repositories)
    assert {"ruff-check", "ruff-format"} <= {hook["id"] for repo in repositories for hook in repo["hooks"]}
