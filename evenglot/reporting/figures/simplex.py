"""The simplex of three languages, with chi-square balls around the data and temperature-sampling mixtures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenglot.balance.static import temperature
from evenglot.reporting.figures.canvas import BLUE, ORANGE, RED, name_points, picture, settle
from evenglot.robust import ChiSquareBall
from evenglot.robust.validate import Vector
from evenglot.runs.history import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = ("#00331a", "#006d2c", "#238b45", "#41ab5d", "#74c476", "#a1d99b")  # of balls, smallest first
DATA, UNIFORM = "data (tau = 1)", "uniform"
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])


def draw_simplex(
    sizes: Mapping[str, float],
    path: str | Path,
    rhos: Sequence[float] = (0.05, 0.1, 0.3, 1.0),
    taus: Sequence[float] = (1, 1.5, 2, 3, 5, 100),
    excess: Mapping[str, float] | None = None,
    course: Sequence[Mapping[str, float]] = (),
) -> None:
    """Draw the simplex: every point of the triangle is a mixture; a corner is one language alone.

    With `excess` losses (loss minus baseline), arrows show the best response in each ball. With a `course` (mixtures
    of a run), a line joins them, normalised to these three languages.
    """
    names = list(sizes)
    if len(names) != 3 or min(sizes.values()) <= 0:
        raise ValueError(f"simplex: expected three languages with data, got {dict(sizes)}")
    p = temperature(list(sizes.values()), 1)
    with picture(path, 7.2, 5.2) as figure:
        axis = figure.subplots()
        axis.set_aspect("equal")
        axis.set_axis_off()
        axis.set_xlim(-0.08, 1.08)
        axis.set_ylim(-0.1, 0.96)
        for name, corner, share, up in zip(names, CORNERS, p, (-1, -1, 1), strict=True):
            text = f"{name} ({100 * share:.3g} %)"
            axis.text(corner[0], corner[1] + 0.03 * up, text, ha="center", va="top" if up < 0 else "bottom")
        lines = _draw_balls(axis, p, rhos)
        if excess is not None:
            _draw_best_responses(axis, p, rhos, np.array([excess[name] for name in names]))
        way, points = _draw_temperatures(axis, p, taus)
        if course:
            _draw_course(axis, np.array([[mixture[name] for name in names] for mixture in course]))
        axis.legend(loc="upper left", bbox_to_anchor=(0.66, 1.0), fontsize=8.5)
        settle(figure)
        name_points(
            axis,
            points,
            {name: "#000000" if name in (DATA, UNIFORM) else BLUE for name in points},
            avoid=[(x, y) for line in (way[::4], *lines) for x, y in line],
        )


def draw_course(history: History, path: str | Path) -> None:
    """The mixtures of a run on the simplex of the largest, the median and the smallest corpus."""
    names = history.names
    three = (names[0], names[len(names) // 2], names[-1])
    mixture = history.mixture
    course = [{name: mixture.values[name][place] or 0.0 for name in three} for place in range(len(mixture.steps))]
    draw_simplex({name: history.p[name] for name in three}, path, course=course)


def _draw_balls(axis: Axes, p: Vector, rhos: Sequence[float]) -> list[Vector]:
    """Draw the triangle and the outline of each ball in it; returns points on these lines."""
    triangle = axis.fill(*CORNERS.T, facecolor="#fafafa", edgecolor="#555555", linewidth=1.0, zorder=0)[0]
    lines = [np.linspace(CORNERS, np.roll(CORNERS, 1, axis=0), 100).reshape(-1, 2)]
    for i, rho in enumerate(sorted(rhos)):
        covers = all(ChiSquareBall(p, rho).contains(corner) for corner in np.eye(3))
        label = f"chi-square ball, rho = {rho:g}" + (" (all mixtures)" if covers else "")
        outline = on_triangle(ball_outline(p, rho))
        shade = SHADES[min(i, len(SHADES) - 1)]
        (line,) = axis.plot(*outline.T, color=shade, linewidth=1.3, label=label, gid=f"rho.{rho:g}", zorder=1)
        line.set_clip_path(triangle)  # points outside are not mixtures
        lines.append(outline[::3])
    return lines


def _draw_best_responses(axis: Axes, p: Vector, rhos: Sequence[float], excess: Vector) -> None:
    """An arrow from the data to the best response in each ball."""
    from matplotlib.patches import FancyArrowPatch

    style: dict[str, Any] = {
        "arrowstyle": "->",
        "mutation_scale": 10,
        "color": RED,
        "linewidth": 1.2,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    start = _point(p)
    for rho in rhos:
        answer = _point(ChiSquareBall(p, rho).best_response(excess))
        arrow = FancyArrowPatch(start, answer, **style, zorder=3, gid=f"answer.{rho:g}")
        axis.add_patch(arrow)
    axis.plot([], [], color=RED, linewidth=1.2, label="best response")


def _draw_course(axis: Axes, mixtures: Vector) -> None:
    """Draw the path of mixtures; the last one has the largest marker."""
    shown = mixtures[mixtures.sum(axis=1) > 0]  # others have no share of these three
    points = on_triangle(shown / shown.sum(axis=1, keepdims=True))
    style: dict[str, Any] = {"color": ORANGE, "marker": "o", "zorder": 3}
    axis.plot(*points.T, linewidth=0.9, markersize=2.5, label="this run", gid="course", **style)
    axis.plot(*points[-1:].T, markersize=6, gid="last", **style)


def _draw_temperatures(axis: Axes, p: Vector, taus: Sequence[float]) -> tuple[Vector, dict[str, tuple[float, float]]]:
    """Draw the path from the data to uniform as tau grows; returns the path, and labelled points on it by name."""
    fine = np.geomspace(min([1.0, *taus]), 1000, 200)
    way = on_triangle(np.array([temperature(p, tau) for tau in (*fine, np.inf)]))
    axis.plot(*way.T, color=BLUE, linewidth=0.8, zorder=2)
    shares = {f"tau = {tau:g}": temperature(p, tau) for tau in taus if tau not in (1, np.inf)}
    points = {name: _point(q) for name, q in {DATA: p, UNIFORM: np.full(3, 1 / 3), **shares}.items()}
    if shares:
        dots = np.array([points[name] for name in shares])
        axis.plot(*dots.T, "o", color=BLUE, markersize=4, label="temperature", gid="taus")
    axis.plot(*points[DATA], "s", color="#000000", markersize=6, zorder=4, gid="data")
    axis.plot(*points[UNIFORM], "D", color="#000000", markersize=5, markerfacecolor="white", zorder=4, gid="uniform")
    return way, points


def ball_outline(p: Vector, rho: float, points: int = 361) -> Vector:
    """Mixtures at chi-square divergence rho from p (three groups): an ellipse, possibly partly outside the simplex.

    q = p + sqrt(2 rho p) u, where u runs through the unit vectors orthogonal to sqrt(p), so that the shares sum to 1.
    """
    root = np.sqrt(p)
    one = np.array([root[1], -root[0], 0.0]) / math.hypot(root[0], root[1])
    other = np.cross(root, one)
    angles = np.linspace(0, 2 * np.pi, points)[:, None]
    return np.asarray(p + math.sqrt(2 * rho) * root * (np.cos(angles) * one + np.sin(angles) * other))


def on_triangle(q: Vector) -> Vector:
    """Convert barycentric to figure coordinates."""
    return np.asarray(q @ CORNERS)


def _point(q: Vector) -> tuple[float, float]:
    x, y = on_triangle(q)
    return float(x), float(y)
