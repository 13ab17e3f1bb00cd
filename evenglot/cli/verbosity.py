"""--quiet and --verbose: options of every command, and before the command as well."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from evenglot.verbosity import set_verbosity

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress: only results, warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the time of every stage, tracebacks of errors.")]


def choose(quiet: bool, verbose: bool) -> None:
    """Set the verbosity, if one of the options is there."""
    if quiet and verbose:
        raise ValueError("--quiet, --verbose: choose one of them")
    if quiet or verbose:
        set_verbosity("quiet" if quiet else "verbose")


def with_verbosity(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the two options after its own; typer reads them from the signature."""

    @wraps(command)
    def run(*, quiet: bool, verbose: bool, **options: Any) -> None:
        choose(quiet, verbose)
        command(**options)

    signature = inspect.signature(command, eval_str=True)
    further = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in {"quiet": Quiet, "verbose": Verbose}.items()
    ]
    parameters = [*signature.parameters.values(), *further]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
