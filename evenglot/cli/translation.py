"""Commands that use a trained model: translate, export, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from evenglot.cli.options import Beam, Checkpoint, Device, Engine, RunFolder
from evenglot.cli.terminal import outlive_readers


def translate(
    run: RunFolder,
    to: Annotated[str | None, typer.Option(metavar="LANG", help="Target language.")] = None,
    source: Annotated[str | None, typer.Option("--from", metavar="LANG", help="Source language.")] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="Text or .gz; default: stdin.")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Text or .gz; default: stdout.")] = None,
    beam: Beam = 5,
    length_penalty: Annotated[float, typer.Option(help="Scores are divided by length to this power.")] = 1.0,
    max_length: Annotated[int, typer.Option(help="Most pieces in a translation.")] = 200,
    max_ratio: Annotated[float | None, typer.Option(help="Most pieces for each piece of the source.")] = None,
    n_best: Annotated[int, typer.Option(help="Translations of each sentence.")] = 1,
    form: Annotated[
        Literal["text", "tsv", "jsonl"], typer.Option("--format", help="tsv, jsonl: with scores.")
    ] = "text",
    engine: Engine = "torch",
    which: Checkpoint = "best",
    device: Device = "auto",
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


def serve(
    run: RunFolder,
    port: Annotated[int, typer.Option(help="Where to listen.", min=0, max=65535)] = 8080,
    host: Annotated[str, typer.Option(help="Other than 127.0.0.1, others can reach it.")] = "127.0.0.1",
    name: Annotated[list[str] | None, typer.Option(help="Another name it is called by, as behind a proxy.")] = None,
    engine: Engine = "torch",
    which: Checkpoint = "best",
) -> None:
    """A page and a JSON API to try a model, on this machine."""
    from evenglot.serve import serve as serve_model

    outlive_readers()
    serve_model(run, host=host, port=port, names=tuple(name or ()), engine=engine, which=which)
