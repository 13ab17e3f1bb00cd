"""Shared by all figures: atomic writing, style, colours, and placement of labels."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenglot.extras import missing
from evenglot.files import finished_file
from evenglot.robust.validate import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["svg", "png"]

# Okabe and Ito's palette without yellow, then colours by Paul Tol that differ from these in lightness.
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99", "#AA7744"),
)
BLUE, ORANGE, GREEN, RED = PALETTE[:4]
GREY = "#9a9a9a"
LIGHT_GREY = "#e4e4e4"
FEW_DECADES = 1000  # below this range, a log scale also has labels between the powers of 10
DASHED = (0, (4, 3))
# Candidate positions of a point's label: side, and distance in typographic points.
SIDES = np.array([(1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)])
DISTANCES = np.array([5, 10, 17, 26, 38, 52])

STYLE: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "font.size": 9.0,
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "legend.frameon": False,
    "savefig.dpi": 130,
    "svg.fonttype": "none",  # keep text as text: searchable, and can be restyled
    "svg.hashsalt": "evenglot",  # reproducible ids
    "text.parse_math": False,  # dollar signs in names are not formulas
}
METADATA = {"svg": {"Date": None, "Creator": "evenglot"}, "png": {"Software": "evenglot"}}


@contextmanager
def picture(path: str | Path, width: float, height: float) -> Iterator[Figure]:
    """A figure (size in inches), written as .svg or .png, by the suffix of `target`, when the block ends."""
    target = Path(path)
    ending = target.suffix.removeprefix(".")
    if ending not in METADATA:
        raise ValueError(f"{target}: expected a file name ending in .svg or .png")
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing("figures", "matplotlib") from error
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        # Glyphs missing from the font are boxes in a PNG; for SVG, browsers use another font.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(width, height))
        yield figure
        content = io.BytesIO()
        figure.savefig(content, format=ending, metadata=METADATA[ending])
    target.parent.mkdir(parents=True, exist_ok=True)
    with finished_file(target) as file:
        file.write(content.getvalue())


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name; they repeat after a dozen."""
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def darker(colour: str) -> str:
    """A darker version of a colour, legible as text."""
    return "#" + "".join(f"{round(0.72 * int(colour[i : i + 2], 16)):02x}" for i in (1, 3, 5))


def log_shares(axis: Axes, low: float, high: float = 1.0) -> None:
    """A logarithmic y axis of shares in percent."""
    axis.set_yscale("log")
    axis.set_ylim(low, high)
    if high / low < FEW_DECADES:
        axis.set_yticks([digit * 10.0**power for power in range(-3, 1) for digit in (1, 2, 5)])
        axis.set_ylim(low, high)
    axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axis.yaxis.set_minor_formatter(lambda share, _: "")


def name_lines(axis: Axes, ends: Mapping[str, tuple[float, float]], colour: Mapping[str, str]) -> None:
    """Write names to the right of an axis, each as close as possible to the end of its line.

    Here and in `name_points` the figure must be laid out already, as labels are placed in figure coordinates.
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
    """Heights in the same order, at least `gap` apart, with least squared displacement (pool adjacent violators)."""
    order = sorted(heights, key=lambda name: (heights[name], name))
    pools: list[tuple[float, int]] = []  # (best position of its lowest member, size)
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
    """Label each point without covering other labels and points and, where possible, the areas to avoid."""
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
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5},  # lines may pass underneath
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": GREY, "shrinkA": 0, "shrinkB": 3},
        )
        extent = Text.get_window_extent(label)  # without the leader line
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
    """Lay out a figure, so that its axes have their final positions."""
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)


def pixels_in_a_point(axis: Axes) -> float:
    """Pixels per typographic point."""
    figure = axis.get_figure(root=True)
    assert figure is not None
    return figure.dpi / 72


def _boxes(centres: Vector, half: float) -> Vector:
    """Square boxes; a box is its centre (x, y), half its width and half its height."""
    return np.hstack([centres, np.full((len(centres), 2), half)])


def _overlap(boxes: Vector, others: Vector) -> Vector:
    """Area of each box covered by the others, summed over these."""
    one, other = boxes[:, None, :], others[None, :, :]
    lower = np.maximum(one[..., :2] - one[..., 2:], other[..., :2] - other[..., 2:])
    upper = np.minimum(one[..., :2] + one[..., 2:], other[..., :2] + other[..., 2:])
    return np.asarray(np.clip(upper - lower, 0, None).prod(axis=-1).sum(axis=-1))


def _leader(place: Vector, name: Vector, pixel: float) -> Vector:
    """The line from a point to its label as small boxes, without the part on the point itself."""
    length = float(np.hypot(*(name - place)))
    ways = np.arange(5 * pixel, length, 2 * pixel) / length
    return _boxes(place + ways[:, None] * (name - place), pixel)
