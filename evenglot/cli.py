"""The command line: parses, calls, prints. One sub-command for each step of the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from evenglot import __version__

app = typer.Typer(
    name="evenglot",
    help="Train one translation model for many languages, and make it good in every one of them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
) -> None:
    """See what every strategy would do on the corpus sizes of the paper: two tables and a picture."""
    from evenglot.demo import run_demo

    run_demo(out)


def main() -> None:
    """Run the command line; bad input is one clear line and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        print(f"evenglot: {error}", file=sys.stderr)
        sys.exit(2)
