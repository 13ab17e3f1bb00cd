"""Commands that use a trained model: translate, export, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from evenglot.cli.options import Beam, Checkpoint, Device, Engine, RunFolder
from evenglot.cli.terminal import outlive_readers

EXPORTING = "exporting, and comparing with the original"


def translate(
    run: RunFolder,
    to: Annotated[
        str | None, typer.Option(metavar="LANG", help="Target language; needed if the model has several.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="LANG", help="Source language; needed if the model has several.")
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="Input file, plain or .gz.", show_default="stdin")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file, plain or .gz.", show_default="stdout")
    ] = None,
    beam: Beam = 5,
    length_penalty: Annotated[float, typer.Option(metavar="X", help="Divide scores by length ** X.")] = 1.0,
    max_length: Annotated[int, typer.Option(metavar="N", help="Maximum length of a translation in subwords.")] = 200,
    max_ratio: Annotated[float | None, typer.Option(metavar="X", help="Maximum length relative to the source.")] = None,
    n_best: Annotated[int, typer.Option(metavar="N", help="Number of translations per line.")] = 1,
    form: Annotated[
        Literal["text", "tsv", "jsonl"],
        typer.Option("--format", metavar="FORMAT", help="Output format: text, tsv or jsonl; the last two add scores."),
    ] = "text",
    engine: Engine = "torch",
    which: Checkpoint = "best",
    device: Device = "auto",
    force: Annotated[bool, typer.Option("--force", help="Allow directions that the model was not trained on.")] = False,
) -> None:
    """Translate text, line by line."""
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
    to: Annotated[
        Literal["huggingface", "ctranslate2"], typer.Option(metavar="FORMAT", help="huggingface or ctranslate2.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Quantise to 8 bits (ctranslate2 only): smaller and faster.")
    ] = False,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Only the adapters of model.lora, for peft (huggingface only).")
    ] = False,
    which: Checkpoint = "best",
    license_id: Annotated[
        str | None,
        typer.Option("--license", metavar="ID", help="Licence of the model, for its card, e.g. cc-by-4.0."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Data set it was trained on, as the Hub calls it, for the card. Repeatable."),
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Pretrained model it was fine-tuned from, as the Hub calls it, for the card."
        ),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Also upload to the Hugging Face Hub; a new repository is private."),
    ] = None,
) -> None:
    """Export a model to Hugging Face Transformers or CTranslate2.

    The exported model is first verified against the original on real sentences.
    """
    from evenglot.live import say
    from evenglot.progress import Bars
    from evenglot.runs.run import Run

    console = Console()
    if to == "huggingface":
        if int8:
            raise ValueError("--int8: only with --to ctranslate2")
        from evenglot.export import hub, huggingface

        if push is not None:
            hub.check_repository(push)
            if adapter and base_model is None:
                raise ValueError("--push with --adapter: say with --base-model which model of the Hub they adapt")
        sharing = hub.Sharing(license_id, dataset or (), base_model)
        with Bars().task(EXPORTING, None):
            exported = huggingface.export(Run(run), out, which, sharing, adapter=adapter)
        say(console, str(exported))
        if push is not None:
            typer.echo(f"Uploaded to {hub.push(out, push)}")
    else:
        if adapter:
            raise ValueError("--adapter: only with --to huggingface")
        if push is not None or license_id is not None or base_model is not None or dataset:
            raise ValueError("--license, --dataset, --base-model, --push: only with --to huggingface")
        from evenglot.export import ctranslate2

        with Bars().task(EXPORTING, None):
            agreement = ctranslate2.export(Run(run), out, "int8" if int8 else "float32", which=which)
        say(console, f"{out}: {agreement}")


def serve(
    run: RunFolder,
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port to listen on; 0 picks a free one.", min=0, max=65535)
    ] = 8080,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on; the default is reachable from this machine only."),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Additional host name to accept, e.g. behind a proxy. Repeatable."),
    ] = None,
    engine: Engine = "torch",
    which: Checkpoint = "best",
) -> None:
    """Serve a web page and a JSON API for translation."""
    from evenglot.serve import serve as serve_model

    outlive_readers()
    serve_model(run, host=host, port=port, names=tuple(name or ()), engine=engine, which=which)
