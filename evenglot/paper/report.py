"""`evenglot paper-tables`: the paper's tables and figures with our results, in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenglot.files import write_text
from evenglot.paper.figures import draw_paper_figures
from evenglot.paper.render import to_html, to_latex_document, to_markdown
from evenglot.paper.results import find_results
from evenglot.paper.tables import paper_tables
from evenglot.reporting.figures import Format

FIGURES = "figures"


@dataclass(frozen=True)
class PaperReport:
    """What was written: the tables as text, the files by kind, and warnings about the runs."""

    markdown: str
    files: dict[str, list[Path]]
    warnings: list[str]


def write_paper_report(folders: Sequence[Path], out: Path, format: Format = "svg") -> PaperReport:
    """Read the runs in these folders; write tables.md, tables.tex, tables.html and the figures."""
    results, warnings = find_results(folders)
    for each in results.values():
        if each.comparison is not None:
            warnings += [f"{each.dataset} {each.direction}: {w.message}" for w in each.comparison.warnings]
    tables = paper_tables(results)
    files = {name: out / f"tables.{name}" for name in ("md", "tex", "html")}
    markdown = to_markdown(tables)
    out.mkdir(parents=True, exist_ok=True)
    write_text(files["md"], markdown)
    write_text(files["tex"], to_latex_document(tables))
    figures = draw_paper_figures(results, out / FIGURES, format)  # after the tables: they need matplotlib
    linked = {f"{FIGURES}/{file.name}": caption for file, caption in figures.items()}
    write_text(files["html"], to_html(tables, linked, warnings))
    return PaperReport(markdown, {"Tables": list(files.values()), "Figure": list(figures)}, warnings)
