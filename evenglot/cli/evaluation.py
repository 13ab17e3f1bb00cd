"""Commands that evaluate runs: score, compare, grid, report."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from evenglot.cli.options import Beam, Checkpoint, Device, Engine, GridOverrides, Reference, RunFolder, Split
from evenglot.cli.terminal import outlive_readers, print_file, print_warnings

if TYPE_CHECKING:
    from evenglot.comparison.scored_run import ScoredRun
    from evenglot.grid.plan import Job
    from evenglot.grid.work import Place

FormatName = Literal["text", "markdown", "latex", "json"]
MachinesName = Literal["here", "ray"]
ComparisonFormat = Annotated[
    FormatName, typer.Option("--format", metavar="FORMAT", help="Output format: text, markdown, latex or json.")
]


def score(
    run: RunFolder,
    split: Split = "test",
    beam: Beam = 5,
    hypotheses: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Score the translations in this folder (por-en.en, ...) instead.")
    ] = None,
    engine: Engine = "torch",
    which: Checkpoint = "best",
    tokenize: Annotated[str, typer.Option(metavar="NAME", help="sacreBLEU tokeniser for BLEU.")] = "13a",
    comet: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Also compute COMET with this `comet-score` command.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Translate and score held-out data: BLEU, chrF++, TER, loss.

    Writes scores.json to the run folder.
    """
    from evenglot.inference.engines import SearchOptions
    from evenglot.progress import Bars
    from evenglot.runs.run import Run
    from evenglot.runs.scores import scores_file
    from evenglot.scoring.score_run import score_run
    from evenglot.scoring.tables import score_summary, score_table

    home = Run(run)
    scores, store = score_run(
        home,
        split,
        SearchOptions(beam),
        Bars(),
        hypotheses=hypotheses,
        engine=engine,
        which=which,
        tokenize=tokenize,
        comet=comet,
        device=device,
    )
    console = Console()
    console.print(score_table(scores, store.sizes))
    console.print(score_summary(scores), highlight=False)
    print_file(console, "Scores", scores_file(home, split))


def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Folders of scored runs; NAME=RUN sets the name of the row.")
    ],
    reference: Reference = None,
    split: Split = "test",
    form: ComparisonFormat = "text",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write comparison.json, .md and .tex to this folder.")
    ] = None,
) -> None:
    """Compare scored runs side by side, with significance tests.

    Runs in NAME/seed-1, NAME/seed-2, ... are seeds of one strategy and form one row.
    """
    from evenglot.comparison.run_names import named_runs
    from evenglot.comparison.scored_run import read_scored_run
    from evenglot.grid.plan import is_grid_file
    from evenglot.runs.run import Run

    named = named_runs(runs)
    for _, path in named:
        if is_grid_file(path):
            raise ValueError(f"{path}: this is a grid file; run `evenglot grid {path}`")
    results = [read_scored_run(Run(folder), name, split) for name, folder in named]
    _compare_and_print({None: results}, reference, split, form, out)


def grid(
    file: Annotated[Path, typer.Argument(metavar="GRID", help="YAML file: base config, strategies, seeds.")],
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of runs to train at the same time.",
            show_default="as many as the GPUs allow; without GPUs 1",
        ),
    ] = None,
    gpus_per_run: Annotated[
        int, typer.Option(metavar="N", min=1, help="GPUs, with one process each, of a run; without GPUs, processes.")
    ] = 1,
    on: Annotated[
        MachinesName,
        typer.Option(help="Train on this machine, or on the Ray cluster that it belongs to (RAY_ADDRESS)."),
    ] = "here",
    list_runs: Annotated[
        bool, typer.Option("--list", help="Print the names of all runs, and do nothing else.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="Train only this run, or those that match a pattern such as 'erm/*', without comparing; repeatable.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Store results of completed runs here; runs found here are not repeated."),
    ] = None,
    reference: Reference = None,
    form: ComparisonFormat = "text",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for comparison.json, .md and .tex.", show_default="`out` of the grid"),
    ] = None,
    overrides: GridOverrides = None,
) -> None:
    """Train the missing runs of a grid, then compare all of them.

    A grid is a set of strategies, each trained with several seeds.

    Run the same command again to resume after an interruption.
    """
    from evenglot.grid.plan import load_grid, matching
    from evenglot.grid.status import grid_results
    from evenglot.grid.work import run_grid

    if file.is_dir():
        raise ValueError(f"{file}: this is a folder, not a grid file; `evenglot compare` compares runs")
    plan, planned = load_grid(file, overrides or ())
    if list_runs:
        for job in planned:
            typer.echo(job.name)
        return
    if reference is not None and reference not in plan.strategies:
        raise ValueError(f"--reference {reference}: not one of the strategies {', '.join(plan.strategies)}")
    reference = reference or plan.reference
    chosen = None if only is None else matching(planned, only)
    with _place(on, planned, jobs, gpus_per_run) as place:
        failures = run_grid(plan, planned, place=place, keep_in=keep, only=chosen)
    if chosen is not None:
        _report_failures(failures, len(chosen))
        return
    results = grid_results(plan, planned, keep)
    if failures and reference is not None:  # without a run of the reference there is nothing to compare with
        results = {name: found for name, found in results.items() if reference in {each.row for each in found}}
    _compare_and_print(results, reference, plan.split, form, out or Path(plan.out))
    _report_failures(failures, len(planned))


def _place(
    on: MachinesName, planned: Sequence[Job], jobs: int | None, gpus_per_run: int
) -> AbstractContextManager[Place]:
    """Where the runs of a grid are trained."""
    if on == "ray":
        from evenglot.grid.on_ray import OnRay

        return OnRay(planned, jobs, gpus_per_run)
    from evenglot.grid.process import Here

    return nullcontext(Here(planned, jobs, gpus_per_run))


def _report_failures(failures: Sequence[ValueError], runs: int) -> None:
    if failures:
        summary = f"{len(failures)} of {runs} runs failed; the others are complete"
        raise ValueError("\n".join([*map(str, failures), summary]))


def _compare_and_print(
    results: Mapping[str | None, Sequence[ScoredRun]],
    reference: str | None,
    split: str,
    form: FormatName,
    out: Path | None,
) -> None:
    """Compare the runs of each set of directions (None: there is only one set); print and write the tables."""
    from evenglot.comparison.compare import compare as compare_results
    from evenglot.comparison.tables import show, write_comparison

    compared = {name: compare_results(found, reference, split).as_json() for name, found in results.items()}
    warnings = [warning["message"] for comparison in compared.values() for warning in comparison["warnings"]]
    for name, comparison in compared.items():
        if out is not None:
            write_comparison(comparison, out / name if name else out)
        if form != "json" or name is None:
            show(comparison, form, name)
    if form == "json" and compared and None not in compared:
        typer.echo(json.dumps(compared, indent=1, ensure_ascii=False, allow_nan=False))
    print_warnings(Console(stderr=True), list(dict.fromkeys(warnings)))


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Run folders; NAME=RUN sets the name in the report.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output file.", show_default="RUN/report.html; report.html for several"),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write figures to this folder (needs matplotlib).")
    ] = None,
    figure_format: Annotated[Literal["svg", "png"], typer.Option(help="File format of the figures.")] = "svg",
    reference: Reference = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Serve the page locally and update it while the runs train.")
    ] = False,
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port for --watch; 0 picks a free one.", min=0, max=65535)
    ] = 8090,
) -> None:
    """Write an HTML report about one run, or several compared.

    The page is self-contained and needs no network.
    """
    from evenglot.comparison.compare import comparison_of
    from evenglot.comparison.run_names import named_runs
    from evenglot.reporting.page import write_report
    from evenglot.reporting.watch import watch as watch_runs
    from evenglot.runs.run import Run

    named = [(name, Run(folder)) for name, folder in named_runs(runs)]
    names, homes = [name for name, _ in named], [run for _, run in named]
    if watch:
        if out is not None or figures is not None or reference is not None:
            raise ValueError("--watch: writes no files; leave out --out, --figures and --reference")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # end with a message; there is nothing to save
        outlive_readers()
        watch_runs(homes, port=port, names=names)
        return
    console = Console()

    def warn(text: str) -> None:
        print_warnings(console, [text])

    comparison = comparison_of(named, reference, warn)
    place = homes[0].folder if len(homes) == 1 else Path()
    file = write_report(homes, out or place / "report.html", comparison=comparison, names=names, warn=warn)
    print_file(console, "Report", file)
    if figures is not None:
        from evenglot.reporting.figures import draw_figures

        for picture in draw_figures(named, comparison, figures, figure_format):
            print_file(console, "Figure", picture)
