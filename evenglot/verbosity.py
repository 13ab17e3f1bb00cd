"""How much is printed on standard error. The command line sets it with --quiet and --verbose."""

from __future__ import annotations

from typing import Literal, get_args

Verbosity = Literal["quiet", "normal", "verbose"]

_verbosity: Verbosity = "normal"


def set_verbosity(verbosity: Verbosity) -> None:
    """`quiet`: only warnings and errors; `normal`: progress, too; `verbose`: also the time of every stage."""
    global _verbosity
    if verbosity not in get_args(Verbosity):
        raise ValueError(f"verbosity {verbosity!r}: expected one of {', '.join(get_args(Verbosity))}")
    _verbosity = verbosity


def verbosity() -> Verbosity:
    """The present setting."""
    return _verbosity
