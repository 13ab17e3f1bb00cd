"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

EngineName = Literal["torch", "ctranslate2", "ctranslate2-int8"]

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="YAML config; see `evenglot example`.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a config key, e.g. train.updates=500. Repeatable."),
]
GridOverrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the grid, e.g. seeds=1, or of all configs, e.g. train.updates=500. Repeatable.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder written by `evenglot train`.")]
Engine = Annotated[
    EngineName, typer.Option(metavar="ENGINE", help="Inference backend: torch, ctranslate2 or ctranslate2-int8.")
]
Checkpoint = Annotated[
    str, typer.Option(metavar="STEP", help="Checkpoint: best, last, average, or a number of updates.")
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"], typer.Option(metavar="DEVICE", help="Device: auto, cpu, cuda or mps.")
]
Beam = Annotated[int, typer.Option(metavar="N", help="Beam size; 1 is greedy search.")]
Reference = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Row that the others are compared to.", show_default="proportional sampling"),
]
Split = Annotated[
    Literal["test", "valid", "valid_full"],
    typer.Option(metavar="SPLIT", help="Held-out data set: test, valid or valid_full."),
]
