"""Figures as SVG or PNG. matplotlib is an extra (`pip install "evenglot[figures]"`), imported only when drawing.

Output is reproducible byte for byte, text in an SVG stays text, and the palette is suitable for colour-blind readers.
"""

from evenglot.reporting.figures.canvas import Format
from evenglot.reporting.figures.comparisons import draw_comparison
from evenglot.reporting.figures.draw import draw_figures, draw_history
from evenglot.reporting.figures.runs import draw_run
from evenglot.reporting.figures.simplex import draw_simplex

__all__ = [
    "Format",
    "draw_comparison",
    "draw_figures",
    "draw_history",
    "draw_run",
    "draw_simplex",
]
