"""evenglot: one translation model for many languages, good in every one of them.

    import evenglot

    evenglot.prepare("conf.yaml")
    run = evenglot.train("conf.yaml", out="runs/first")
    evenglot.score(run)
    evenglot.report(run, out="report.html")
    evenglot.load(run).translate(["Olá!"], source="por", to="en")

`pip install evenglot` brings only NumPy, which is all that `evenglot.balance`, `evenglot.robust`,
`evenglot.batches.draw` and `evenglot.batches.pack` need; `pip install "evenglot[train]"` brings the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenglot.api import compare, prepare, report, score, train
    from evenglot.inference.translate import Translator, load
    from evenglot.runs.run import Run
    from evenglot.verbosity import set_verbosity

__all__ = [
    "Run",
    "Translator",
    "__version__",
    "compare",
    "load",
    "prepare",
    "report",
    "score",
    "set_verbosity",
    "train",
]
__version__ = "0.1.0.dev0"

_MODULES = {
    "Run": "evenglot.runs.run",
    "Translator": "evenglot.inference.translate",
    "load": "evenglot.inference.translate",
    "set_verbosity": "evenglot.verbosity",
    **dict.fromkeys(("compare", "prepare", "report", "score", "train"), "evenglot.api"),
}


def __getattr__(name: str) -> Any:
    """Load what needs more than NumPy when it is asked for, and not before."""
    if name not in _MODULES:
        raise AttributeError(f"module 'evenglot' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from evenglot.extras import absent, missing

        if error.name in (packages := absent()):
            raise missing("train", *packages) from error
        raise
