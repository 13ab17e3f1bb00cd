"""The paper's tables and figures, filled with results of runs that never were."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.paper.figures import course, draw_paper_figures
from evenglot.paper.numbers import bleu, layouts, pairs, printed
from evenglot.paper.render import to_html, to_latex_document, to_markdown
from evenglot.paper.results import AllResults, find_results
from evenglot.paper.tables import PaperTable, paper_tables
from evenglot.runs.run import Run, RunError
from tests.paper.finished import write_results, write_scored

SOME = ["erm", "tau-100", "chi-ibr"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows of two sets; WMT has not been run."""
    return write_results(tmp_path_factory.mktemp("results"), ("ted_related", "ted_diverse"), SOME)


@pytest.fixture(scope="module")
def results(folder: Path) -> AllResults:
    return find_results([folder])[0]


@pytest.fixture(scope="module")
def tables(results: AllResults) -> list[PaperTable]:
    return paper_tables(results)


# --------------------------------------------------------------------------------------------------------- numbers


def test_the_papers_averages_are_those_of_its_languages() -> None:
    for row in printed()["rows"]:
        found = bleu(row["dataset"], row["direction"], row["method"])
        languages = layouts()["sets"][row["dataset"]]["languages"]
        assert set(found) == {*languages, "Avg"}
        assert fmean(found[language] for language in languages) == pytest.approx(found["Avg"], abs=0.006)


def test_every_method_of_the_layout_is_in_the_paper() -> None:
    for table in layouts()["tables"].values():
        for dataset in table["sets"]:
            for direction in layouts()["directions"]:
                assert all(bleu(dataset, direction, row[2]) for row in table["rows"] if len(row) > 2)
    ids = [row["id"] for row in printed()["ablation"]]
    assert [row[0] for row in layouts()["ablation"]["rows"]] == ids


# --------------------------------------------------------------------------------------------------------- results


def test_runs_are_found_by_their_languages_wherever_they_are(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "a" / "b"
    shutil.copytree(folder / "ted_diverse" / "en-any", moved)
    found, warnings = find_results([moved])
    assert [key for key, each in found.items() if each.runs] == [("ted_diverse", "en-any")]
    assert set(found["ted_diverse", "en-any"].rows) == set(SOME)
    assert warnings == []


def test_other_languages_are_left_out_and_nothing_is_refused(folder: Path, tmp_path: Path) -> None:
    write_scored(tmp_path / "erm" / "seed-222", {"kaz-en": 300, "bel-en": 200})
    with pytest.raises(RunError, match=str(tmp_path)):
        find_results([tmp_path])
    shutil.copytree(folder / "ted_related", tmp_path / "more")
    found, (warning,) = find_results([tmp_path])
    assert str(tmp_path / "erm") in warning
    assert len(found["ted_related", "any-en"].runs) == len(SOME)
    with pytest.raises(RunError, match="nowhere"):
        find_results([tmp_path / "nowhere"])


# ---------------------------------------------------------------------------------------------------------- tables


def test_our_scores_stand_above_the_papers_in_the_order_of_its_columns(
    tables: list[PaperTable], results: AllResults
) -> None:
    related = tables[0].blocks[0]
    assert related.columns == (*layouts()["sets"]["ted_related"]["languages"], "Avg")
    heading, lines = related.sections[1]
    assert heading == "TED related, en→any"
    named = [(line.kind, line.name) for line in lines]
    assert named[:2] == [("ours", "ERM (τ=1)"), ("paper", "paper")]  # the reference has no differences
    chi = named.index(("ours", "χ-IBR"))
    assert [kind for kind, _ in named[chi : chi + 3]] == ["ours", "paper", "difference"]
    of_set = results["ted_related", "en-any"]
    for place, language in enumerate(related.columns[:-1]):
        score = of_set.rows["chi-ibr"].scores("bleu", f"en-{language}")[0]
        assert lines[chi].cells[place].text == f"{score:.2f}"
        assert lines[chi + 1].cells[place].text == f"{bleu('ted_related', 'en-any', 'chi-IBR')[language]:.2f}"
    assert lines[chi + 1].cells[-1].text == "22.21"
    assert related.under[:2] == ("0.008", "0.006")


def test_differences_have_the_intervals_of_the_comparison(tables: list[PaperTable], results: AllResults) -> None:
    _, lines = tables[0].blocks[1].sections[0]
    (line,) = [each for each in lines if each.kind == "difference" and each.cells][-1:]
    comparison = results["ted_diverse", "any-en"].comparison
    assert comparison is not None
    row = next(row for row in comparison.rows if row.name == "tau-100")  # the last row: not in the paper's table
    low, high = comparison.findings(row, "bleu").groups["mean"].interval
    numbers = [float(number.replace("−", "-")) for number in re.findall(r"[+−][\d.]+", line.cells[-1].text)]
    assert numbers[1:] == pytest.approx([low, high], abs=0.006)


def test_rows_without_results_have_the_papers_numbers_only(tables: list[PaperTable]) -> None:
    _, wmt, dro, ablation = tables
    (_, lines), *_ = wmt.blocks[0].sections
    assert [line.kind for line in lines] == ["ours", "paper"] * 5  # rows that are not in the paper are left out
    assert {cell.text for line in lines if line.kind == "ours" for cell in line.cells} == {"-"}
    assert wmt.blocks[0].spans == (("any→en", 5), ("en→any", 5))
    assert len(dro.blocks[0].sections[0][1]) == 14
    cells = {
        line.name: [cell.text for cell in line.cells] for _, lines in ablation.blocks[0].sections for line in lines
    }
    assert cells["(c) Ours, ρ=0.05, w/o BL"] == ["-", "", "22.08"]
    assert cells["(e) Ours, ρ=0.05, BL: τ=1"][0] != "-"
    assert cells["(i) Ours, ρ=0.1, BL: τ=100"] == ["-", "", "20.62"]


def test_several_seeds_are_averaged_and_their_variance_counts(tmp_path: Path) -> None:
    sizes = {f"{language}-en": count for language, count in pairs("wmt").items()}
    for place, row in enumerate(("erm", "chi-ibr")):
        for seed in (1, 2, 3):
            write_scored(tmp_path / row / f"seed-{seed}", sizes, 3 * (place + seed))
    results, warnings = find_results([tmp_path])
    assert warnings == []
    of_set = results["wmt", "any-en"]
    scores = of_set.rows["chi-ibr"].scores("bleu", "tur-en")
    assert len(set(scores)) == len(scores) == 3
    assert of_set.score("chi-ibr", ["tur"]) == pytest.approx(fmean(scores))
    wmt = paper_tables(results)[1]
    ((_, lines),) = wmt.blocks[0].sections
    assert lines[[line.name for line in lines].index("χ-IBR")].cells[3].text == f"{fmean(scores):.2f}"
    assert any(re.search(r"\b3 seeds", note) for note in wmt.notes)


def test_without_the_reference_there_are_no_differences(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "ted_related" / "any-en" / "chi-ibr", tmp_path / "chi-ibr")
    (first, *_) = paper_tables(find_results([tmp_path])[0])
    kinds = {line.kind for block in first.blocks for _, lines in block.sections for line in lines}
    assert kinds == {"ours", "paper"}


# -------------------------------------------------------------------------------------------------------- documents


def test_markdown_tables_have_as_many_cells_in_every_line(tables: list[PaperTable]) -> None:
    text = to_markdown(tables)
    assert [int(number) for number in re.findall(r"^### Table (\d)", text, re.MULTILINE)] == [1, 2, 3, 4]
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(blocks) == 4 + 1 + 1 + 2
    for block in blocks:
        assert len({line.count(" | ") for line in block.splitlines()}) == 1


def test_latex_rows_have_as_many_cells_as_columns_and_braces_are_balanced(tables: list[PaperTable]) -> None:
    for table in to_latex_document(tables).split(r"\begin{table*}")[1:]:
        assert table.count("{") == table.count("}")
        columns = len(re.search(r"\\begin\{tabular\}\{(.*?)\}", table)[1].replace("|", ""))
        for row in re.findall(r"^(.*) \\\\$", table, re.MULTILINE):
            spans = [int(number) - 1 for number in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            assert row.count(" & ") + 1 + sum(spans) == columns
        assert not re.search(r"[^\x00-\x7f]", table)


class Cells(HTMLParser):
    """The number of columns of each row of each table, the pictures, and the number of warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[int]] = []
        self.images: list[str] = []
        self.folded = 0  # items of lists

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append(0)
        elif tag in ("td", "th"):
            self.tables[-1][-1] += int(found.get("colspan") or 1)
        elif tag == "li":
            self.folded += 1
        elif tag == "img":
            self.images.append(found["src"] or "")


def test_html_tables_have_as_many_cells_in_every_row(tables: list[PaperTable]) -> None:
    page = Cells()
    page.feed(to_html(tables, {"figures/figure-1.svg": "Figure 1: a < b"}, ["first", "a < b"]))
    assert [set(rows) for rows in page.tables] == [{10}, {10}, {11}, {11}, {4}]
    assert page.images == ["figures/figure-1.svg"]
    assert page.folded == 2


# --------------------------------------------------------------------------------------------------------- figures


def test_epochs_are_pairs_drawn_as_multiples_of_the_data(folder: Path) -> None:
    found = course(Run(folder / "ted_diverse" / "any-en" / "chi-ibr" / "seed-222"))
    assert found.end == pytest.approx(20, abs=1e-3)  # 20 intervals of one pass
    assert found.at([0, 100, 2000]) == pytest.approx([0, 1, 20], abs=1e-3)
    assert len(found.at(found.told.mixture.steps)) == 20


def test_figures_show_what_there_are_results_for(results: AllResults, tmp_path: Path) -> None:
    written = draw_paper_figures(results, tmp_path)
    assert [path.stem for path in written] == [f"figure-{number}" for number in (1, 2, 3, 4, 5)]
    gains = (tmp_path / "figure-2.svg").read_text()
    assert set(re.findall(r'id="(gain\.\d\.\w+)"', gains)) == {
        f"gain.{place}.{group}" for place in range(4) for group in ("low_resource", "high_resource")
    }
    for number in (3, 4):
        drawn = set(re.findall(r'id="([qp]\.\w+)"', (tmp_path / f"figure-{number}.svg").read_text()))
        assert drawn == {f"{kind}.{name}" for kind in "qp" for name in pairs("ted_diverse")}
    losses = re.findall(r'id="loss\.(\w+)"', (tmp_path / "figure-5.svg").read_text())
    assert sorted(losses) == sorted([*pairs("ted_diverse")] * 2)


def test_the_best_temperature_is_the_one_with_the_best_average(results: AllResults) -> None:
    of_set = results["ted_related", "any-en"]
    languages = layouts()["sets"]["ted_related"]["languages"]
    scores = {row: of_set.score(row, languages) for row in ("erm", "tau-100")}
    assert of_set.score("tau-5", languages) is None
    assert of_set.best_temperature() == max(scores, key=lambda row: scores[row] or 0)
    assert np.isfinite([score for score in scores.values() if score is not None]).all()


# --------------------------------------------------------------------------------------------------------- command


def test_the_command_prints_tables_and_writes_all_files(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["paper-tables", str(folder / "ted_related"), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "### Table 4" in done.stdout
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert names == {"tables.md", "tables.tex", "tables.html", "figures/figure-1.svg", "figures/figure-2.svg"}
    assert 'src="figures/figure-2.svg"' in (tmp_path / "tables.html").read_text()
