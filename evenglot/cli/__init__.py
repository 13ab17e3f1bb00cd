"""The command line: each command parses its options, calls the library and prints the result.

Start-up stays quick because the commands import what they need inside their functions.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from evenglot import __version__
from evenglot.cli.data import check, example, prepare, schema, simulate
from evenglot.cli.evaluation import compare, grid, report, score
from evenglot.cli.failure import fail, fail_usage
from evenglot.cli.mixtures import mixture
from evenglot.cli.training import baseline, demo, train
from evenglot.cli.translation import export, serve, translate

app = typer.Typer(
    name="evenglot",
    help="Train one translation model for many languages, and balance how often each of them is sampled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# In the order of the pipeline, which is that of `evenglot --help`.
COMMANDS = (
    demo,
    example,
    schema,
    check,
    prepare,
    simulate,
    train,
    baseline,
    translate,
    score,
    compare,
    grid,
    report,
    export,
    mixture,
    serve,
)
for command in COMMANDS:
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenglot {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line. For bad input, print one line per error and exit with code 2.

    Ctrl-C and a closed pipe end the process at once, even inside a library that does not check for signals. Nothing is
    lost, because files are written atomically.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads: spinning threads would waste the cores
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    try:
        sys.exit(app(standalone_mode=False))
    except (ValueError, OSError) as error:
        fail(str(error))
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in ("gloo", "nccl")):
            raise
        fail("another process failed or cannot be reached; see the output of the other processes")
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        fail_usage(error)  # an exception of click, or of typer's copy of click
