"""What all pictures share: a file that is complete or absent, one style, colours, names beside lines."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenglot.files import finished_file
from evenglot.robust.validate import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]

# Okabe and Ito's palette without its yellow, then hues of Paul Tol's that differ from these in lightness.
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99", "#AA7744"),
)
BLUE, ORANGE, GREEN, RED = PALETTE[:4]
GREY = "#9a9a9a"
LIGHT_GREY = "#e4e4e4"
FEW_DECADES = 1000  # below this range, a log scale has numbers between the powers of 10
DASHED = (0, (4, 3))
# Where the name of a point may stand: at which of its sides, how many typographic points away.
SIDES = np.array([(1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)])
DISTANCES = np.array([5, 10, 17, 26, 38, 52])

STYLE: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "font.size": 9.0,
    "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it along
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "legend.frameon": False,
    "savefig.dpi": 130,
    "svg.fonttype": "none",  # text stays text: it can be searched, and a page can restyle it
    "svg.hashsalt": "evenglot",  # otherwise the ids in a file are random
    "text.parse_math": False,  # a name with two dollar signs is no formula
}
METADATA = {"svg": {"Date": None, "Creator": "evenglot"}, "png": {"Software": "evenglot"}}


class NoMatplotlibError(ModuleNotFoundError, ValueError):
    """A picture is wanted where matplotlib is not installed."""


@contextmanager
def picture(path: str | Path, width: float, height: float) -> Iterator[Figure]:
    """A figure (inches) to draw on; when the block ends, it is written. The name's ending says how: .svg or .png."""
    target = Path(path)
    ending = target.suffix.removeprefix(".")
    if ending not in METADATA:
        raise ValueError(f"{target}: a picture's name ends in .svg or .png")
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise NoMatplotlibError('matplotlib is not installed: pip install "evenglot[figures]"') from error
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        # A letter that the font lacks is a box in a PNG; browsers find it elsewhere.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(width, height))
        yield figure
        content = io.BytesIO()
        figure.savefig(content, format=ending, metadata=METADATA[ending])
    target.parent.mkdir(parents=True, exist_ok=True)
    with finished_file(target) as file:
        file.write(content.getvalue())


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each; beyond a dozen they come again."""
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def darker(colour: str) -> str:
    """The colour for text: pale hues are too faint for letters."""
    return "#" + "".join(f"{round(0.72 * int(colour[i : i + 2], 16)):02x}" for i in (1, 3, 5))


def log_shares(axis: Axes, low: float, high: float = 1.0) -> None:
    """A logarithmic axis of shares in percent."""
    axis.set_yscale("log")
    axis.set_ylim(low, high)
    if high / low < FEW_DECADES:
        axis.set_yticks([digit * 10.0**power for power in range(-3, 1) for digit in (1, 2, 5)])
        axis.set_ylim(low, high)
    axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axis.yaxis.set_minor_formatter(lambda share, _: "")


def name_lines(axis: Axes, ends: Mapping[str, tuple[float, float]], colour: Mapping[str, str]) -> None:
    """Write names to the right of an axis, each as near as the others let it to the height where its line ends.

    The figure must be settled, here and in `name_points`: names are placed on paper.
    """
    on_paper = axis.transData - axis.transAxes
    wanted = {name: on_paper.transform(end) for name, end in ends.items()}
    line_height = 11.5 * pixels_in_a_point(axis) / axis.get_window_extent().height
    for name, height in spread({name: float(y) for name, (_, y) in wanted.items()}, line_height).items():
        x, y = wanted[name]
        leader: dict[str, Any] = {
            "color": colour[name],
            "linewidth": 0.8,
            "transform": axis.transAxes,
            "clip_on": False,
        }
        axis.plot([x, 1.0, 1.035], [y, y, height], **leader, gid=f"leader.{name}")
        axis.text(1.042, height, name, color=darker(colour[name]), va="center", fontsize=8.5, transform=axis.transAxes)


def spread(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Heights, in their order, that are at least `gap` apart, with the least squares of moves: pool what clashes."""
    order = sorted(heights, key=lambda name: (heights[name], name))
    pools: list[tuple[float, int]] = []  # (where the lowest of it would be best, how many)
    for name in order:
        place, count = heights[name], 1
        while pools and pools[-1][0] + gap * pools[-1][1] > place:
            below, below_count = pools.pop()
            place = (below * below_count + (place - gap * below_count) * count) / (below_count + count)
            count += below_count
        pools.append((place, count))
    free = (place + gap * i for place, count in pools for i in range(count))
    return dict(zip(order, free, strict=True))


def name_points(
    axis: Axes,
    points: Mapping[str, tuple[float, float]],
    colour: Mapping[str, str],
    avoid: Sequence[tuple[float, float]] = (),
) -> None:
    """Write a name beside each point: not on other names and points; if it can be, not on what is to be avoided."""
    from matplotlib.text import Text

    pixel = pixels_in_a_point(axis)
    frame = axis.get_window_extent()
    frame_box = np.array([[*(frame.p0 + frame.p1) / 2, frame.width / 2, frame.height / 2]])
    places = axis.transData.transform(list(points.values()))
    taken = _boxes(places, 3.5 * pixel)
    crossed = _boxes(axis.transData.transform(avoid) if len(avoid) else np.empty((0, 2)), pixel)
    for name, place in zip(points, places, strict=True):
        label = axis.annotate(
            name,
            points[name],
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8.5,
            color=darker(colour[name]),
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5},  # lines may pass below
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": GREY, "shrinkA": 0, "shrinkB": 3},
        )
        extent = Text.get_window_extent(label)  # without the leader
        half = np.array([extent.width / 2, extent.height / 2]) + pixel
        sides = [side * (half + distance * pixel) for distance in DISTANCES for side in SIDES]
        candidates = np.hstack([place + sides, np.tile(half, (len(sides), 1))])
        hidden = _overlap(candidates, taken) + half.prod() * 4 - _overlap(candidates, frame_box)
        leaders = [_leader(place, centre, pixel) for centre in candidates[:, :2]]
        struck = [_overlap(leader, taken).sum() for leader in leaders]
        far = np.repeat(DISTANCES, len(SIDES)) * pixel**2
        best = int(np.argmin(30 * hidden + 10 * np.array(struck) + _overlap(candidates, crossed) + 5 * far))
        label.xyann = tuple((candidates[best, :2] - place) / pixel)
        taken = np.vstack([taken, candidates[best], leaders[best]])


def settle(figure: Figure) -> None:
    """Lay a figure out, so that its axes have their places on paper."""
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)


def pixels_in_a_point(axis: Axes) -> float:
    """How many pixels of its figure are a typographic point."""
    figure = axis.get_figure(root=True)
    assert figure is not None
    return figure.dpi / 72


def _boxes(centres: Vector, half: float) -> Vector:
    """Squares: a box is its centre (x, y), half its width and half its height."""
    return np.hstack([centres, np.full((len(centres), 2), half)])


def _overlap(boxes: Vector, others: Vector) -> Vector:
    """The area of each box that others cover, summed over these."""
    one, other = boxes[:, None, :], others[None, :, :]
    lower = np.maximum(one[..., :2] - one[..., 2:], other[..., :2] - other[..., 2:])
    upper = np.minimum(one[..., :2] + one[..., 2:], other[..., :2] + other[..., 2:])
    return np.asarray(np.clip(upper - lower, 0, None).prod(axis=-1).sum(axis=-1))


def _leader(place: Vector, name: Vector, pixel: float) -> Vector:
    """The line from a point to its name, as small boxes; without its beginning, which lies on the point itself."""
    length = float(np.hypot(*(name - place)))
    ways = np.arange(5 * pixel, length, 2 * pixel) / length
    return _boxes(place + ways[:, None] * (name - place), pixel)
