"""The command line: each command parses its options, calls the library and prints the result.

Start-up stays quick because the commands import what they need inside their functions.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Annotated

import typer

from evenglot import __version__
from evenglot.cli.data import check, example, prepare, schema, simulate
from evenglot.cli.doctor import doctor
from evenglot.cli.evaluation import compare, grid, report, score
from evenglot.cli.failure import fail, fail_unexpectedly, fail_usage, worded
from evenglot.cli.interrupt import end_on_interrupt
from evenglot.cli.mixtures import mixture
from evenglot.cli.paper import paper_tables, recipe
from evenglot.cli.training import baseline, demo, train
from evenglot.cli.translation import export, serve, translate
from evenglot.cli.verbosity import Quiet, Verbose, choose, with_verbosity
from evenglot.verbosity import set_verbosity, verbosity

app = typer.Typer(
    name="evenglot",
    help="Train one translation model for many languages, and balance how often each of them is sampled.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# In the order of the pipeline, which is that of `evenglot --help`.
COMMANDS = (
    demo,
    example,
    schema,
    recipe,
    check,
    prepare,
    simulate,
    train,
    baseline,
    translate,
    score,
    compare,
    grid,
    paper_tables,
    report,
    export,
    mixture,
    serve,
    doctor,
)
for command in COMMANDS:
    app.command()(with_verbosity(command))


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
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Options before the command."""
    set_verbosity("normal")
    choose(quiet, verbose)


def main() -> None:
    """Run the command line. For bad input, print one line per error and exit with code 2; for a bug, with code 1.

    Ctrl-C and a closed pipe end the process at once, even inside a library that does not check for signals. Nothing is
    lost, because files are written atomically.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads: spinning threads would waste the cores
    end_on_interrupt()
    if hasattr(signal, "SIGPIPE"):  # not on Windows
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        sys.exit(app(standalone_mode=False))
    except (ValueError, OSError) as error:
        if verbosity() == "verbose":
            traceback.print_exc()
        fail(worded(error) if isinstance(error, OSError) else str(error))
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in ("gloo", "nccl")):
            fail_unexpectedly(error)
        fail("another process failed or cannot be reached; see the output of the other processes")
    except ModuleNotFoundError:
        raise  # __main__ names the extra that brings it
    except MemoryError:
        fail("out of memory; close other programs, or use a machine with more memory")
    except Exception as error:
        if not hasattr(error, "format_message"):
            fail_unexpectedly(error)
        fail_usage(error)  # an exception of click, or of typer's copy of click
