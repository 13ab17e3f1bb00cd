"""Commands about the configuration and the data: example, schema, check, prepare, simulate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from evenglot.cli.options import ConfigFile, Overrides
from evenglot.cli.terminal import print_file, print_warnings


def example() -> None:
    """Print an example config that explains every key."""
    from evenglot.config.example import example as example_text

    typer.echo(example_text(), nl=False)


def schema() -> None:
    """Print the JSON schema of the config, for editors."""
    from evenglot.config.schema import schema as config_schema

    typer.echo(json.dumps(config_schema(), indent=1, ensure_ascii=False))


def check(
    config: ConfigFile,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Check the raw data: sizes, problems, leakage, repetitions."""
    from evenglot.config import load_config
    from evenglot.preview.check import check as check_data
    from evenglot.preview.tables import check_examples, check_summary, check_tables
    from evenglot.progress import Bars

    result = check_data(load_config(config, overrides or ()), Bars())
    if as_json:
        typer.echo(json.dumps(result.as_json(), indent=1, ensure_ascii=False))
        return
    console = Console()
    console.print(*check_tables(result))
    for line in check_examples(result, console.width if console.is_terminal else None):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    console.print(check_summary(result), highlight=False)
    print_warnings(console, result.warnings)


def prepare(
    config: ConfigFile,
    overrides: Overrides = None,
    on: Annotated[
        Literal["here", "ray"],
        typer.Option(help="Work on this machine, or on the Ray cluster that it belongs to (RAY_ADDRESS)."),
    ] = "here",
) -> None:
    """Clean the text, learn vocabularies, write the training store."""
    from evenglot.config import load_config
    from evenglot.corpus.prepare import prepare as prepare_data
    from evenglot.corpus.tables import removed_table, store_table, vocabulary_table
    from evenglot.progress import Bars

    store = prepare_data(load_config(config, overrides or ()), Bars(), on)
    console = Console()
    tables = (store_table(store), removed_table(store), vocabulary_table(store))
    console.print(*(part for part in tables if part is not None))
    print_warnings(console, store.warnings)
    print_file(console, "Store", store.folder)


def simulate(
    config: ConfigFile,
    overrides: Overrides = None,
    intervals: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of intervals (updates of the mixture).", show_default="as in the run"
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also draw mixtures and losses to this folder.")
    ] = None,
) -> None:
    """Preview the sampling strategy without training anything.

    Uses the sizes of the prepared data and artificial losses.
    """
    from evenglot.config import load_config
    from evenglot.config.doubts import estimated_length
    from evenglot.corpus.prepared import open_prepared
    from evenglot.preview.dry_run import dry_run

    read = load_config(config, overrides or (), check_files=False)
    store = open_prepared(read)
    groups, length = read.data.groups, estimated_length(read, store.sizes, store.tokens)
    done = dry_run(
        read,
        groups.sum(store.sizes),
        groups.sum(store.target_tokens),
        intervals or max(1, round(length.updates / length.interval_updates)),
        length.interval_pairs,
    )
    console = Console()
    console.print(done.table)
    console.print(
        "least, last, most: sampling share over the intervals. passes: over each corpus in total; tau: the same with "
        f"temperature sampling. As in the run, an interval has about {length.interval_pairs:,} pairs. The losses are "
        "artificial (a group improves with its own samples and a little with those of others): look at the trends, "
        "not at the values.",
        highlight=False,
    )
    if figures is not None:
        from evenglot.reporting.figures import draw_history

        for file in draw_history(done.history, figures):
            print_file(console, "Figure", file)
