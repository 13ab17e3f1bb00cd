"""Commands that repeat the paper's experiments: recipe, paper-tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from evenglot.cli.terminal import print_file, print_warnings

RecipeName = Literal["ted-related", "ted-diverse", "wmt"]


def recipe(
    name: Annotated[RecipeName, typer.Argument(metavar="NAME", help="ted-related, ted-diverse or wmt.")],
    downloads: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Downloaded archive (TED), or folder with the downloads.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the corpus, conf.yaml and paper.yaml.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the expected files, and which of them are missing.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output of an earlier call.")] = False,
) -> None:
    """Convert a corpus of the paper, and write the paper's grid.

    Nothing is downloaded. Then: evenglot grid OUT/paper.yaml
    """
    from evenglot.paper.layout import CONFIG, GRID, check_free
    from evenglot.paper.recipes import make, survey
    from evenglot.tables import table

    console = Console()
    if dry_run:
        check_free(out, overwrite)
        for what, pairs, file in survey(name, downloads):
            parts = [what, f"{pairs:,} pairs expected" if pairs else "", str(file or "")]
            console.print(": ".join(filter(None, parts)), highlight=False, soft_wrap=True, markup=False)
        return
    manifest = make(name, downloads, out, overwrite=overwrite)
    languages = manifest["languages"]
    splits = list(dict.fromkeys(split for found in languages.values() for split in found))
    cells = {
        language: [f"{found[split]['pairs']:,}" if split in found else "" for split in splits]
        for language, found in languages.items()
    }
    console.print(table("Sentence pairs", cells, [split.replace("_", " ") for split in splits]))
    print_warnings(console, manifest["warnings"])
    print_file(console, "Configuration", out / CONFIG)
    print_file(console, "Grid", out / GRID)


def paper_tables(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS", help="Folders with the runs of the paper's grids.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder.", show_default="`paper` in the first folder")
    ] = None,
    figure_format: Annotated[Literal["svg", "png"], typer.Option(help="File format of the figures.")] = "svg",
) -> None:
    """Write the paper's tables and figures with our results.

    Tables 1 to 4 as Markdown, LaTeX and HTML, with the paper's numbers and confidence intervals, and Figures 1 to 8.
    """
    from evenglot.paper.report import write_paper_report

    console = Console()
    made = write_paper_report(results, out or results[0] / "paper", figure_format)
    typer.echo(made.markdown)
    print_warnings(Console(stderr=True), made.warnings)
    for kind, files in made.files.items():
        for file in files:
            print_file(console, kind, file)
