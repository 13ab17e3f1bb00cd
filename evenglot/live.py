"""Lines, and pictures that replace one another: on a terminal, or as one output of a notebook's cell.

Notebooks need IPython alone, no widgets.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

STYLE = "white-space:pre;overflow-x:auto;line-height:normal;margin:0;font-family:Menlo,Consolas,monospace"


class View(Protocol):
    """A place for one picture at a time."""

    def update(self, picture: RenderableType) -> None:
        """Replace the picture."""

    def close(self, last: RenderableType | None = None) -> None:
        """Leave this picture behind, or nothing."""


def say(console: Console, text: str | Text) -> None:
    """Print a line; on a terminal it is wrapped between words, elsewhere it stays one line."""
    console.print(text, highlight=False, soft_wrap=not console.is_terminal, markup=False)


def can_be_live(console: Console) -> bool:
    """Does the console have a place for pictures? Files and pipes have none."""
    return console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)


def view_on(console: Console) -> View:
    """A view on a console that has a place for it."""
    return NotebookView(console.width) if console.is_jupyter else TerminalView(console)


class TerminalView:
    """The last lines of a terminal."""

    def __init__(self, console: Console) -> None:
        # Do not redirect standard output if it is a file, a pipe or closed.
        on_screen = sys.stdout is not None and sys.stdout.isatty()
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=on_screen)
        self._live.start()
        console.show_cursor(True)  # a killed process must not leave the cursor hidden

    def update(self, picture: RenderableType) -> None:
        """Replace the picture."""
        self._live.update(picture, refresh=True)

    def close(self, last: RenderableType | None = None) -> None:
        """Leave this picture behind, or nothing."""
        if last is None:
            self._live.transient = True
        else:
            self._live.update(last)
        self._live.stop()


class NotebookView:
    """One output of the cell that is running."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._handle: Any = None

    def update(self, picture: RenderableType) -> None:
        """Replace the picture."""
        self._show(self._content(picture))

    def close(self, last: RenderableType | None = None) -> None:
        """Leave this picture behind, or nothing."""
        self._show({"text/html": "", "text/plain": ""} if last is None else self._content(last))

    def _show(self, content: dict[str, str]) -> None:
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def _content(self, picture: RenderableType) -> dict[str, str]:
        console = Console(file=io.StringIO(), record=True, width=self._width, force_jupyter=False)
        console.print(picture)
        html = console.export_html(inline_styles=True, code_format=f'<pre style="{STYLE}">{{code}}</pre>', clear=False)
        return {"text/html": html, "text/plain": console.export_text()}
