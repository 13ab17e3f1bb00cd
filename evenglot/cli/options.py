"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

EngineName = Literal["torch", "ctranslate2", "ctranslate2-int8"]
HeldOut = Literal["test", "valid", "valid_full"]

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file; `evenglot example` prints one.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key: a.b=c. Can be repeated.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that `evenglot train` made.")]
Engine = Annotated[EngineName, typer.Option(help="What does the work.")]
Checkpoint = Annotated[str, typer.Option(help="Checkpoint: best, last, average, or a number of updates.")]
Device = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="What to compute on.")]
Beam = Annotated[int, typer.Option(help="Width of the search; 1: greedy.")]
Reference = Annotated[str | None, typer.Option(metavar="NAME", help="What others are compared to; default: tau = 1.")]
