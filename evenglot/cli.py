"""The command line: parses, calls, prints. One sub-command for each step of the way."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console

from evenglot import __version__

app = typer.Typer(
    name="evenglot",
    help="Train one translation model for many languages, and make it good in every one of them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file; `evenglot example` prints one.")]
EngineOption = Literal["torch", "ctranslate2", "ctranslate2-int8"]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that `evenglot train` made.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key: a.b=c. Can be repeated.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenglot {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Options before any sub-command."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all of it.")] = Path("demo"),
    minutes: Annotated[
        float, typer.Option(min=0.1, help="How long, about, on two cores: decides the number of updates.")
    ] = 5.0,
) -> None:
    """The whole way on the embedded corpus: prepare, train ERM and chi-IBR, translate, score, write a report."""
    from evenglot.demo import run_demo

    run_demo(out, minutes)


@app.command()
def example() -> None:
    """Print a configuration in which every key is explained; it is the manual."""
    from evenglot.config import EXAMPLE

    typer.echo(EXAMPLE.read_text(encoding="utf-8"), nl=False)


@app.command()
def check(
    config: ConfigFile,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Look at the data before anything is spent: sizes, problems, leaks, how often each corpus will be shown."""
    from evenglot.config import load_config
    from evenglot.preview.check import check as check_data
    from evenglot.preview.tables import check_summary, check_tables
    from evenglot.progress import Bars

    result = check_data(load_config(config, overrides or ()), Bars())
    if as_json:
        typer.echo(json.dumps(result.as_json(), indent=1, ensure_ascii=False))
        return
    console = Console()
    console.print(*check_tables(result))
    console.print(check_summary(result), highlight=False)
    _print_warnings(console, result.warnings)


@app.command()
def prepare(config: ConfigFile, overrides: Overrides = None) -> None:
    """Clean the text, learn vocabularies, write the store that training reads."""
    from evenglot.config import load_config
    from evenglot.corpus.prepare import prepare as prepare_data
    from evenglot.corpus.tables import removed_table, store_table, vocabulary_table
    from evenglot.progress import Bars

    store = prepare_data(load_config(config, overrides or ()), Bars())
    console = Console()
    tables = (store_table(store), removed_table(store), vocabulary_table(store))
    console.print(*(part for part in tables if part is not None))
    _print_warnings(console, store.warnings)
    console.print(f"Store: {store.folder}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def simulate(
    config: ConfigFile,
    overrides: Overrides = None,
    intervals: Annotated[int, typer.Option(min=1, help="How many times the mixture is chosen.")] = 20,
    figures: Annotated[Path | None, typer.Option(metavar="DIR", help="Also draw mixtures and losses here.")] = None,
) -> None:
    """A dry run of the strategy on the sizes of the prepared data and losses that are made up; nothing is trained."""
    from evenglot.config import load_config
    from evenglot.corpus.prepared import open_prepared
    from evenglot.directions import sum_by_group
    from evenglot.preview.dry_run import dry_run

    read = load_config(config, overrides or (), check_files=False)
    store = open_prepared(read)
    groups = read.data.groups
    done = dry_run(read, sum_by_group(store.sizes, groups), sum_by_group(store.target_tokens, groups), intervals)
    console = Console()
    console.print(done.table)
    console.print(
        "least, last, most: shares over time; tau: passes with a temperature instead. An interval is as long as the "
        "data, unless batches.epoch_size says otherwise. The losses are made up (each group learns by what is shown of "
        "it, and a little by what is shown of others): read the shapes, not the numbers.",
        highlight=False,
    )
    if figures is not None:
        from evenglot.reporting.figures import draw_history

        for file in draw_history(done.history, figures):
            console.print(f"Figure: {file}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def train(
    config: ConfigFile,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder of the run; default: runs/ and the name of the config.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in that folder, if there is one.")
    ] = False,
    overrides: Overrides = None,
) -> None:
    """Train a model; several processes: torchrun --nproc-per-node 2 -m evenglot train CONFIG."""
    from evenglot.config import load_config
    from evenglot.training.train import train as train_model

    _outlive_readers()
    folder = out or Path("runs") / config.stem
    train_model(load_config(config, overrides or (), check_files=False), folder, resume=resume)


@app.command()
def baseline(
    run: RunFolder,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; default: RUN/baseline.json.")] = None,
    split: Annotated[Literal["train", "valid"], typer.Option(help="Which text.")] = "train",
    per: Annotated[Literal["token", "character"], typer.Option(help="What a loss is the mean over.")] = "token",
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="What to compute on.")] = "auto",
) -> None:
    """Mean loss of each direction under a trained model: the reference that `balance.baseline` takes."""
    from evenglot.balance import Signal
    from evenglot.progress import Bars
    from evenglot.runs.run import Run
    from evenglot.tables import table
    from evenglot.training.parallel import processes
    from evenglot.training.reference import baseline as compute_baseline

    found = Run(run)
    file = out or found.own_baseline_file()
    if not file.parent.is_dir():
        raise ValueError(f"{file}: there is no folder {file.parent} to write into")
    settings = found.config().train.model_copy(update={"device": device})
    with processes(settings) as mine:
        losses = compute_baseline(found, file, Signal(split, per), mine, Bars())
        if not mine.is_first:
            return
    console = Console()
    rows = {name: [f"{loss:.4f}"] for name, loss in losses.items()}
    console.print(table(f"Loss of a {per} ({split})", rows, ["loss"]))
    console.print(f"Baseline: {file}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def translate(
    run: RunFolder,
    to: Annotated[str | None, typer.Option(metavar="LANG", help="Target language.")] = None,
    source: Annotated[str | None, typer.Option("--from", metavar="LANG", help="Source language.")] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="Text or .gz; default: stdin.")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Text or .gz; default: stdout.")] = None,
    beam: Annotated[int, typer.Option(help="Width of the search; 1: greedy.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Scores are divided by length to this power.")] = 1.0,
    max_length: Annotated[int, typer.Option(help="Most pieces in a translation.")] = 200,
    max_ratio: Annotated[float | None, typer.Option(help="Most pieces for each piece of the source.")] = None,
    n_best: Annotated[int, typer.Option(help="Translations of each sentence.")] = 1,
    form: Annotated[
        Literal["text", "tsv", "jsonl"], typer.Option("--format", help="tsv, jsonl: with scores.")
    ] = "text",
    engine: Annotated[EngineOption, typer.Option(help="What does the work.")] = "torch",
    which: Annotated[str, typer.Option(help="Checkpoint: best, last, average, or a number of updates.")] = "best",
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="What to compute on.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Also in a direction it was not trained on.")] = False,
) -> None:
    """Translate lines of text, in their order."""
    from evenglot.inference.engines import SearchOptions
    from evenglot.inference.lines import translate_lines
    from evenglot.inference.translate import load
    from evenglot.progress import Bars

    options = SearchOptions(beam, length_penalty, max_length, max_ratio, n_best)
    translator = load(run, which=which, device=device, engine=engine)
    direction = translator.direction(to, source, force=force)
    translate_lines(translator, direction, options, input_file, output, form, Bars())


@app.command()
def score(
    run: RunFolder,
    split: Annotated[Literal["test", "valid", "valid_full"], typer.Option(help="Which held-out text.")] = "test",
    beam: Annotated[int, typer.Option(help="Width of the search; 1: greedy.")] = 5,
    hypotheses: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Score these translations (por-en.en, ...) instead.")
    ] = None,
    engine: Annotated[EngineOption, typer.Option(help="What does the work.")] = "torch",
    which: Annotated[str, typer.Option(help="Checkpoint: best, last, average, or a number of updates.")] = "best",
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokeniser for BLEU.")] = "13a",
    comet: Annotated[str | None, typer.Option(metavar="COMMAND", help="`comet-score` of another environment.")] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="What to compute on.")] = "auto",
) -> None:
    """Translate and score a held-out set of every direction: BLEU and chrF++."""
    from evenglot.inference.engines import SearchOptions
    from evenglot.progress import Bars
    from evenglot.runs.run import Run
    from evenglot.runs.scores import scores_file
    from evenglot.scoring.score import score_run
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
    console.print(f"Scores: {scores_file(home, split)}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...|GRID", help="Scored runs, or NAME=RUN; or a grid file.")],
    reference: Annotated[
        str | None, typer.Option(metavar="NAME", help="What others are compared to; default: tau = 1.")
    ] = None,
    split: Annotated[
        Literal["test", "valid", "valid_full"] | None, typer.Option(help="Which held-out text; default: test.")
    ] = None,
    form: Annotated[
        Literal["text", "markdown", "latex", "json"], typer.Option("--format", help="How to print it.")
    ] = "text",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write comparison.json, .md, .tex here; for a grid: its folder.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Grid: runs at a time.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Grid: small files of finished runs; they are not run again.")
    ] = None,
) -> None:
    """Strategies side by side, with significance. With a grid file (strategies x seeds), first run what is missing."""
    from evenglot.comparison.compare import compare as compare_results
    from evenglot.comparison.results import named_runs, read_result
    from evenglot.comparison.tables import show, write_comparison
    from evenglot.runs.run import Run

    failures: list[str] = []
    if len(runs) == 1 and Path(runs[0]).is_file():
        from evenglot.grid.plan import load_grid
        from evenglot.grid.work import grid_results, run_grid

        grid, planned = load_grid(runs[0])
        if reference is not None and reference not in grid.strategies:
            raise ValueError(f"--reference {reference}: not one of the strategies {', '.join(grid.strategies)}")
        if split not in (None, grid.split):
            raise ValueError(f"--split {split}: the grid says {grid.split}; change it there")
        failures = run_grid(grid, planned, at_once=jobs, keep_in=keep)
        results = grid_results(grid, planned, keep)
        reference, split, out = reference or grid.reference, grid.split, out or Path(grid.out)
    else:
        if jobs != 1 or keep is not None:
            raise ValueError("--jobs, --keep: only for a grid file")
        split = split or "test"
        results = {None: [read_result(Run(folder), name, split) for name, folder in named_runs(runs)]}
    warnings: list[str] = []
    if failures and reference is not None:  # where that one failed, there is nothing to compare with
        results = {name: found for name, found in results.items() if reference in {each.row for each in found}}
    compared = {
        name: compare_results(found, reference, split, warnings.append).as_json() for name, found in results.items()
    }
    for name, comparison in compared.items():
        if out is not None:
            write_comparison(comparison, out / name if name else out)
        if form != "json" or name is None:
            show(comparison, form, name)
    if form == "json" and compared and None not in compared:
        typer.echo(json.dumps(compared, indent=1, ensure_ascii=False, allow_nan=False))
    _print_warnings(Console(stderr=True), list(dict.fromkeys(warnings)))
    if failures:
        raise ValueError("\n".join(failures))


@app.command()
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of runs, or NAME=RUN.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: report.html, in the run if there is one.")
    ] = None,
    figures: Annotated[Path | None, typer.Option(metavar="DIR", help="Draw pictures with matplotlib, too.")] = None,
    figure_format: Annotated[Literal["svg", "png"], typer.Option(help="Of the pictures.")] = "svg",
    reference: Annotated[
        str | None, typer.Option(metavar="NAME", help="What others are compared to; default: tau = 1.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Serve the page on this machine, and follow the runs.")
    ] = False,
    port: Annotated[int, typer.Option(help="Where, with --watch.", min=0, max=65535)] = 8090,
) -> None:
    """One self-contained HTML page about a run, or about several and their comparison."""
    from evenglot.comparison.compare import comparison_of
    from evenglot.comparison.results import named_runs
    from evenglot.reporting.page import write_report
    from evenglot.reporting.watch import watch as watch_runs
    from evenglot.runs.run import Run

    named = [(name, Run(folder)) for name, folder in named_runs(runs)]
    names, homes = [name for name, _ in named], [run for _, run in named]
    if watch:
        if out is not None or figures is not None or reference is not None:
            raise ValueError("--watch: serves a page and writes nothing; leave out --out, --figures and --reference")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # nothing to save here: end with a word
        _outlive_readers()
        watch_runs(homes, port=port, names=names)
        return
    console = Console()
    comparison = comparison_of(named, reference, lambda text: _print_warnings(console, [text]))
    place = homes[0].folder if len(homes) == 1 else Path()
    file = write_report(homes, out or place / "report.html", comparison=comparison, names=names)
    console.print(f"Report: {file}", highlight=False, soft_wrap=True, markup=False)
    if figures is not None:
        from evenglot.reporting.figures import draw_figures

        for picture in draw_figures(named, comparison, figures, figure_format):
            console.print(f"Figure: {picture}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def export(
    run: RunFolder,
    to: Annotated[Literal["huggingface", "ctranslate2"], typer.Option(help="For whom.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="CTranslate2 with weights of 8 bits: smaller and faster.")
    ] = False,
) -> None:
    """Write the model in another library's format, and compare both on real sentences first."""
    from evenglot.runs.run import Run

    if to == "huggingface":
        if int8:
            raise ValueError("--int8: only for ctranslate2")
        from evenglot.export import huggingface

        typer.echo(str(huggingface.export(Run(run), out)))
    else:
        from evenglot.export import ctranslate2

        typer.echo(str(ctranslate2.export(Run(run), out, "int8" if int8 else "float32")))


@app.command()
def serve(
    run: RunFolder,
    port: Annotated[int, typer.Option(help="Where to listen.", min=0, max=65535)] = 8080,
    host: Annotated[str, typer.Option(help="Other than 127.0.0.1, others can reach it.")] = "127.0.0.1",
    name: Annotated[list[str] | None, typer.Option(help="Another name it is called by, as behind a proxy.")] = None,
    engine: Annotated[EngineOption, typer.Option(help="What does the work.")] = "torch",
    which: Annotated[str, typer.Option(help="Checkpoint: best, last, average, or a number of updates.")] = "best",
) -> None:
    """A page and a JSON API to try a model, on this machine."""
    from evenglot.serve import serve as serve_model

    _outlive_readers()
    serve_model(run, host=host, port=port, names=tuple(name or ()), engine=engine, which=which)


def _outlive_readers() -> None:
    """Whoever stops reading what we say, a client or `| head`, must not end a server or a training with that."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _print_warnings(console: Console, warnings: list[str]) -> None:
    for warning in warnings:
        console.print("warning", style="yellow", end=" ")
        console.print(warning, highlight=False, soft_wrap=True, markup=False)


def main() -> None:
    """Run the command line. Bad input: a clear line for each mistake, exit code 2.

    Ctrl-C and a closed pipe end the process at once, also inside a library that does not listen to Python. Nothing is
    lost by that: whatever we write is complete or absent.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads: waiting threads that spin steal the cores
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    try:
        sys.exit(app(standalone_mode=False))
    except (ValueError, OSError) as error:
        _fail(str(error))
    except RuntimeError as error:
        # torch.distributed has no exception of its own for a lost peer: its backends name themselves in the text.
        if not any(word in str(error).lower() for word in ("gloo", "nccl")):
            raise
        _fail("another process failed, or cannot be reached")
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _fail_usage(error)  # of click, or of typer's own copy of it


def _fail_usage(error: Any) -> NoReturn:
    """A wrong option or argument, in one line; without any the help has been printed instead."""
    if message := error.format_message():
        command = error.ctx.command_path if getattr(error, "ctx", None) else "evenglot"
        _fail(f"{message.rstrip('.')}; see `{command} --help`")
    sys.exit(2)


def _fail(message: str) -> NoReturn:
    """One line for each mistake; of several processes (torchrun), each says which it is."""
    who = f" (process {os.environ.get('RANK')})" if os.environ.get("WORLD_SIZE", "1") != "1" else ""
    for line in message.splitlines():
        print(f"evenglot{who}: {line}", file=sys.stderr)
    sys.exit(2)
