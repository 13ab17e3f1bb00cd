"""evenglot: one translation model for many languages, good in every one of them.

evenglot.load("runs/first").translate(sentences, source="por", to="en")

`pip install evenglot` brings only NumPy, which is all that `evenglot.balance`, `evenglot.robust`,
`evenglot.batches.draw` and `evenglot.batches.pack` need; `pip install "evenglot[train]"` brings the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenglot.inference.translate import Translator, load

__all__ = ["Translator", "__version__", "load"]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is asked for, and not before."""
    if name in ("Translator", "load"):
        from evenglot.inference import translate

        return getattr(translate, name)
    raise AttributeError(f"module 'evenglot' has no attribute {name!r}")
