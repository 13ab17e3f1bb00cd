"""What the docs say of experiments is what the kept results say, and these are of the grids that stand beside them."""

import re

import pytest

from evenglot.grid.keep import kept
from evenglot.grid.plan import load_grid
from experiments import updates
from experiments.tables import BLOCK, HERE, PAGES, renewed


@pytest.mark.slow
def test_the_tables_of_the_docs_are_those_of_the_kept_results(capsys):
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    assert any(BLOCK.search(text) for text in texts.values())
    outdated = [str(page) for page, text in texts.items() if renewed(text) != text]
    assert not outdated, "run: python -m experiments.tables"


def test_the_curve_of_the_docs_is_that_of_the_kept_runs():
    assert updates.table() in (HERE.parent / "docs" / "training.md").read_text(encoding="utf-8")


FINDING = re.compile(r"(−?[0-9.]+ )?(\[[+−][0-9.]+, [+−][0-9.]+\])")  # in the text, gains may go without their sign


def test_differences_that_the_text_speaks_of_are_in_a_table():
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    tables = {cell for text in texts for block in BLOCK.finditer(text) for cell in FINDING.findall(block[0])}
    spoken_of = {cell for text in texts for cell in FINDING.findall(BLOCK.sub("", text))}
    assert spoken_of
    assert spoken_of <= tables


@pytest.mark.slow
def test_kept_runs_have_the_settings_of_their_grids():
    """So that a grid goes on from what is kept, on any machine."""
    found = {path.parent for path in HERE.glob("*/results/**/scores.json")}
    assert found
    for file in HERE.glob("*/*-*-*.yaml"):
        grid, jobs = load_grid(file)
        results = file.parent / "results"
        found -= {results / job.name for job in jobs if kept(job, grid.split, grid.beam, results, file.parent)}
    assert not found, "in no grid"
