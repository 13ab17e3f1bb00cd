"""Commands that train: demo, train, baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from evenglot.cli.options import Checkpoint, Device, Overrides, RunFolder
from evenglot.cli.terminal import outlive_readers, print_file


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")] = Path("demo"),
    minutes: Annotated[
        float, typer.Option(metavar="M", min=0.1, help="Approximate time on two cores; sets the number of updates.")
    ] = 5.0,
) -> None:
    """Run the whole pipeline on the embedded corpus.

    Prepares the data, trains three models (ERM, fade, chi-IBR), translates and scores the test sets, writes a report.
    """
    from evenglot.demo import run_demo

    run_demo(out, minutes)


def train(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="YAML config; with --resume, the run folder is enough.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Run folder.", show_default="runs/NAME for NAME.yaml")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in that folder, or start it if there is none.")
    ] = False,
    overrides: Overrides = None,
) -> None:
    """Train a model.

    To continue a run: evenglot train --resume RUN

    On several processes: torchrun --nproc-per-node 2 -m evenglot train CONFIG
    """
    from evenglot.config import load_config
    from evenglot.runs.run import Run
    from evenglot.training.train import train as train_model

    outlive_readers()
    if resume and not config.exists():
        raise ValueError(f"{config}: no such run, and no such config")
    if not config.is_dir():
        settings = load_config(config, overrides or (), check_files=False)
        train_model(settings, out or Path("runs") / config.stem, resume=resume)
        return
    if not resume:
        raise ValueError(f"{config}: a folder, not a config; to continue the run in it, add --resume")
    if out is not None:
        raise ValueError(f"--out {out}: the run in {config} is continued where it is; leave --out out")
    train_model(Run(config).config(overrides or ()), config, resume=True)


def baseline(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file.", show_default="RUN/baseline.json")
    ] = None,
    split: Annotated[Literal["train", "valid"], typer.Option(help="Data set to compute the loss on.")] = "train",
    per: Annotated[
        Literal["token", "character"], typer.Option(help="Normalise the loss per token or per character.")
    ] = "token",
    which: Checkpoint = "best",
    device: Device = "auto",
) -> None:
    """Compute the mean loss of each direction with a trained model.

    The file can be used as `balance.baseline` of another run.
    """
    from evenglot.balance import Signal
    from evenglot.progress import Bars
    from evenglot.runs.run import Run
    from evenglot.tables import table
    from evenglot.training.parallel import processes
    from evenglot.training.reference import baseline as compute_baseline

    found = Run(run)
    file = out or found.own_baseline_file()
    if not file.parent.is_dir():
        raise ValueError(f"{file}: the folder {file.parent} does not exist; create it first")
    settings = found.config().train.model_copy(update={"device": device})
    with processes(settings) as mine:
        losses = compute_baseline(found, file, Signal(split, per), mine, Bars(), which=which)
        if not mine.is_first:
            return
    console = Console()
    rows = {name: [f"{loss:.4f}"] for name, loss in losses.items()}
    console.print(table(f"Loss per {per} ({split})", rows, ["loss"]))
    print_file(console, "Baseline", file)
