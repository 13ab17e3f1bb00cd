"""Commands that train: demo, train, baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from evenglot.cli.options import ConfigFile, Device, Overrides, RunFolder
from evenglot.cli.terminal import outlive_readers, print_file


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all of it.")] = Path("demo"),
    minutes: Annotated[
        float, typer.Option(min=0.1, help="How long, about, on two cores: decides the number of updates.")
    ] = 5.0,
) -> None:
    """The whole way on the embedded corpus: prepare, train ERM and chi-IBR, translate, score, write a report."""
    from evenglot.demo import run_demo

    run_demo(out, minutes)


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

    outlive_readers()
    folder = out or Path("runs") / config.stem
    train_model(load_config(config, overrides or (), check_files=False), folder, resume=resume)


def baseline(
    run: RunFolder,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; default: RUN/baseline.json.")] = None,
    split: Annotated[Literal["train", "valid"], typer.Option(help="Which text.")] = "train",
    per: Annotated[Literal["token", "character"], typer.Option(help="What a loss is the mean over.")] = "token",
    device: Device = "auto",
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
    print_file(console, "Baseline", file)
