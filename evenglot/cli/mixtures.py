"""The command mixture: mixtures for other training systems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from evenglot.cli.options import Overrides
from evenglot.cli.terminal import print_warnings

if TYPE_CHECKING:
    from evenglot.stages import Stage

FormatName = Literal["json", "interleave", "megatron", "opustrainer"]
Which = Literal["average", "final", "stages"]
Unit = Literal["pairs", "tokens"]


@dataclass(frozen=True)
class _Source:
    """Where the mixtures come from: a run, or a configuration."""

    strategy: str
    stages: list[Stage]
    pairs: dict[str, int]
    tokens: dict[str, int]


def mixture(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Run folder; or a YAML config, if its strategy does not depend on losses."),
    ],
    to: Annotated[
        FormatName,
        typer.Option(metavar="FORMAT", help="Output format: json, interleave, megatron or opustrainer."),
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Output file.", show_default="stdout")] = None,
    which: Annotated[
        Which | None,
        typer.Option(
            metavar="WHICH",
            help="average: of all samples of the run; final: of the last interval; stages: over time.",
            show_default="stages for opustrainer, otherwise average",
        ),
    ] = None,
    paths: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Path of each dataset, with {direction}, {src}, {tgt}.",
            show_default="{direction}",
        ),
    ] = None,
    unit: Annotated[
        Unit | None,
        typer.Option(
            metavar="UNIT",
            help="Shares of sentence pairs or of target tokens: pairs or tokens.",
            show_default="tokens for megatron, otherwise pairs",
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(metavar="X", min=0, max=1, help="Merge stages that differ by at most this (total variation)."),
    ] = 0.01,
    batch_size: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Batch size that OpusTrainer will be run with.", show_default="10000"),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Write the mixture of a run for another training system.

    One mixture for systems with fixed weights (plain JSON, Hugging Face datasets, Megatron-LM), stages for OpusTrainer.
    """
    from evenglot.files import write_text

    which = which or ("stages" if to == "opustrainer" else "average")
    unit = unit or ("tokens" if to == "megatron" else "pairs")
    _refuse_unused(to, which, unit, paths, batch_size)
    found = _from_run(source, overrides) if source.is_dir() else _from_config(source, overrides)
    pattern = paths or "{direction}"
    text = _text(found, to, which, pattern, unit, tolerance, batch_size)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)


def _refuse_unused(to: FormatName, which: Which, unit: Unit, paths: str | None, batch_size: int | None) -> None:
    """Refuse options that would have no effect, or a wrong one."""
    if which == "stages" and to in ("interleave", "megatron"):
        raise ValueError(f"--which stages: {to} takes one mixture for the whole training; choose average or final")
    if to == "json" and paths is not None:
        raise ValueError("--paths: not used by --to json; leave it out")
    if to == "opustrainer" and unit == "tokens":
        raise ValueError("--unit tokens: OpusTrainer samples lines; leave it out")
    if to != "opustrainer" and batch_size is not None:
        raise ValueError("--batch-size: only with --to opustrainer")


def _from_run(folder: Path, overrides: list[str] | None) -> _Source:
    from evenglot.runs.events import ConfigEvent, of_kind
    from evenglot.runs.log import read_log
    from evenglot.runs.mixtures import stages_of
    from evenglot.runs.run import Run

    if overrides:
        raise ValueError("--set: only with a config, not with a run")
    log = Run(folder).log_file
    if not log.exists():
        raise ValueError(f"{folder}: not a run folder (no log.jsonl); create one with `evenglot train`")
    events = read_log(log)
    stages = stages_of(events)
    about = of_kind(events, ConfigEvent)[0]
    return _Source(
        about.strategy,
        stages,
        {name: facts.pairs for name, facts in about.directions.items()},
        {name: facts.target_tokens for name, facts in about.directions.items()},
    )


def _from_config(file: Path, overrides: list[str] | None) -> _Source:
    from evenglot.config import load_config
    from evenglot.corpus.prepared import open_prepared
    from evenglot.preview.planned import planned

    config = load_config(file, overrides or (), check_files=False)
    store = open_prepared(config)
    sizes, tokens = store.sizes, store.target_tokens
    return _Source(config.balance.strategy, planned(config, sizes, tokens), dict(sizes), dict(tokens))


def _text(
    source: _Source, to: FormatName, which: Which, pattern: str, unit: Unit, tolerance: float, batch_size: int | None
) -> str:
    from evenglot.integrations import mixtures
    from evenglot.integrations.opustrainer import BATCH_SIZE, opustrainer, plan
    from evenglot.stages import Stage, average, merge

    if which == "stages":
        stages = merge(source.stages, tolerance)
    else:
        shares = average(source.stages) if which == "average" else dict(source.stages[-1].shares)
        stages = [Stage(shares, math.inf)]
    if unit == "tokens":
        stages = [Stage(mixtures.token_shares(each.shares, source.pairs, source.tokens), each.pairs) for each in stages]
    paths = mixtures.paths_of(pattern, source.pairs)
    match to:
        case "json":
            about = {"strategy": source.strategy, "which": which, "unit": unit}
            return mixtures.to_json(stages if which == "stages" else stages[0].shares, **about)
        case "interleave":
            return mixtures.interleave(stages[0].shares, paths)
        case "megatron":
            return mixtures.megatron(stages[0].shares, paths)
        case "opustrainer":
            size = batch_size or BATCH_SIZE
            count = len(plan(stages, source.pairs, size))
            if count < len(stages):
                merged = (
                    f"{len(stages)} stages became {count}: OpusTrainer's stages are at least one pass over a dataset"
                )
                print_warnings(
                    Console(stderr=True), [f"{merged}; the shorter ones were averaged with their neighbours"]
                )
            return opustrainer(stages, source.pairs, paths, batch_size=size)
