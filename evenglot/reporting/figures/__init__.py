"""Pictures, as SVG or PNG. matplotlib is an extra (`pip install "evenglot[figures]"`), imported when one is drawn.

The same input gives the same bytes; text in an SVG stays text; colours can be told apart by the colour-blind.
"""

from evenglot.reporting.figures.canvas import Format, NoMatplotlibError
from evenglot.reporting.figures.comparisons import draw_comparison
from evenglot.reporting.figures.draw import draw_figures, draw_history
from evenglot.reporting.figures.runs import draw_run
from evenglot.reporting.figures.simplex import draw_simplex

__all__ = [
    "Format",
    "NoMatplotlibError",
    "draw_comparison",
    "draw_figures",
    "draw_history",
    "draw_run",
    "draw_simplex",
]
