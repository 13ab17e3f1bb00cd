"""Figures of a comparison (given as JSON): differences by group and by language, and the trade-off between groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenglot.reporting.figures.canvas import (
    BLUE,
    GREY,
    LIGHT_GREY,
    ORANGE,
    RED,
    Format,
    name_points,
    picture,
    settle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Json = Mapping[str, Any]

ALPHA = 0.05
GROUPS = {"low_resource": ("low-resource", ORANGE, "o"), "high_resource": ("high-resource", BLUE, "s")}
WITH_MEAN = {**GROUPS, "mean": ("mean of all", "#000000", "D")}
COLUMNS = 4  # panels per row
MANY_DIRECTIONS = 30  # from this number on all panels are in one row, so that names appear once


def draw_comparison(comparison: Json, folder: str | Path, format: Format = "svg") -> list[Path]:
    """Write the figures differences, languages and tradeoff, if there are data for them; returns the files."""
    from_text = [key for key, metric in comparison["metrics"].items() if metric["from_text"]]
    metrics = from_text or list(comparison["metrics"])
    compared = [row for row in comparison["rows"] if row["difference"]]
    has_groups = bool(metrics) and all(
        row["scores"][metrics[0]].get(group) for row in comparison["rows"] for group in GROUPS
    )
    paths = {name: Path(folder) / f"{name}.{format}" for name in ("differences", "languages", "tradeoff")}
    written = []
    if metrics and compared:
        _draw_differences(comparison, metrics, compared, paths["differences"])
        _draw_languages(comparison, metrics[0], compared, paths["languages"])
        written += [paths["differences"], paths["languages"]]
    if has_groups:
        _draw_tradeoff(comparison, metrics, paths["tradeoff"])
        written.append(paths["tradeoff"])
    return written


def _draw_differences(comparison: Json, metrics: Sequence[str], rows: Sequence[Json], path: Path) -> None:
    """One line per strategy, one panel per metric: low-resource, high-resource and overall mean with intervals."""
    with picture(path, 1.6 + 3.4 * len(metrics), 1.3 + 0.55 * len(rows)) as figure:
        axes = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        for axis, metric in zip(axes, metrics, strict=True):
            for line, row in enumerate(rows):
                if line % 2:
                    axis.axhspan(line - 0.5, line + 0.5, color="#f5f5f5", zorder=0)
                for (key, (_, colour, marker)), offset in zip(WITH_MEAN.items(), (-0.25, 0, 0.25), strict=True):
                    if found := row["difference"][metric].get(key):
                        _interval(axis, found, line + offset, colour, marker, gid=f"{metric}.{key}.{line}")
            _difference_axis(axis, comparison, metric)
        axes[0].set_yticks(range(len(rows)), [row["name"] for row in rows])
        axes[0].set_ylim(len(rows) - 0.5, -0.5)
        shown = [key for key in WITH_MEAN if any(row["difference"][m].get(key) for row in rows for m in metrics)]
        for key in shown:
            label, colour, marker = WITH_MEAN[key]
            axes[0].plot([], [], marker, color=colour, markersize=5, label=label)
        figure.legend(loc="outside upper left", ncols=len(shown))


def _draw_languages(comparison: Json, metric: str, rows: Sequence[Json], path: Path) -> None:
    """One panel per strategy: difference and interval of each direction, largest corpus first."""
    directions = comparison["directions"]
    names = list(directions)
    lines = 1 if len(names) > MANY_DIRECTIONS else math.ceil(len(rows) / COLUMNS)
    columns = math.ceil(len(rows) / lines)
    row_height = 0.24 if len(names) <= MANY_DIRECTIONS else 0.15
    higher_is_better = comparison["metrics"][metric]["higher_is_better"]
    with picture(path, 1.5 + 2.3 * columns, 0.8 + lines * (0.75 + row_height * len(names))) as figure:
        axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        for panel, (axis, row) in enumerate(zip(axes.flat, rows, strict=False)):
            axis.set_title(row["name"])
            for line, name in enumerate(names):
                if directions[name]["resource"] == "low":
                    axis.axhspan(line - 0.5, line + 0.5, color="#f3f3f3", zorder=0)
                if found := row["difference"][metric]["directions"].get(name):
                    better = (found["difference"] > 0) == higher_is_better
                    sure = found.get("p_holm") is not None and found["p_holm"] < ALPHA
                    colour = (BLUE if better else RED) if sure else GREY
                    _interval(axis, found, line, colour, "o" if sure else "|", gid=f"{panel}.{name}")
            _difference_axis(axis, comparison, metric)
        for axis in axes.flat[len(rows) :]:
            axis.set_visible(False)
        for axis in axes.flat[: max(len(rows) - columns, 0)]:  # another panel is below
            axis.set_xlabel("")
        for axis in axes.flat[max(len(rows) - columns, 0) :]:
            axis.tick_params(labelbottom=True)
        for axis in axes[:, 0]:
            labels = [f"{name} ({directions[name]['pairs']:,})" for name in names]
            axis.set_yticks(range(len(names)), labels, fontsize=8.5 if len(names) <= MANY_DIRECTIONS else 6.5)
            axis.set_ylim(len(names) - 0.5, -0.5)
        for colour, marker, label in ((BLUE, "o", "better"), (RED, "o", "worse"), (GREY, "|", "not significant")):
            axes.flat[0].plot([], [], marker, color=colour, markersize=5, label=label)
        title = f"Holm-corrected p < {ALPHA:g}; grey rows: low-resource"
        figure.legend(loc="outside lower left", ncols=3, title=title, alignment="left")


def _draw_tradeoff(comparison: Json, metrics: Sequence[str], path: Path) -> None:
    """Low-resource against high-resource mean, one point per strategy; static temperatures joined in order of tau."""
    rows = comparison["rows"]
    static = sorted((row for row in rows if row["tau"] is not None), key=lambda row: float(row["tau"]))
    colour = {row["name"]: BLUE if row["tau"] is not None else RED for row in rows}
    with picture(path, 0.6 + 4.6 * len(metrics), 4.6) as figure:
        axes = figure.subplots(1, len(metrics), squeeze=False)[0]
        panels = []
        for axis, metric in zip(axes, metrics, strict=True):
            points = {row["name"]: _point(row, metric) for row in rows}
            way = [points[row["name"]] for row in static]
            if len(way) > 1:
                axis.plot(*zip(*way, strict=True), color=BLUE, linewidth=0.8, zorder=1, gid=f"{metric}.temperatures")
            avoid = _between(way)
            for number, row in enumerate(rows):
                x, y = points[row["name"]]
                is_reference = row["name"] == comparison["reference"]
                face = "white" if is_reference else colour[row["name"]]
                shape = "o" if row["tau"] is not None else "D"
                dx, dy = (row["scores"][metric][group]["sd"] for group in ("high_resource", "low_resource"))
                bars = {"fmt": "none", "ecolor": (colour[row["name"]], 0.4), "elinewidth": 0.9, "zorder": 1}
                axis.errorbar(x, y, xerr=dx, yerr=dy, **bars)
                look = {"color": colour[row["name"]], "markerfacecolor": face, "markersize": 5.5}
                axis.plot(x, y, shape, **look, gid=f"{metric}.{number}")
                avoid += _between([(x - (dx or 0), y), (x + (dx or 0), y)])
                avoid += _between([(x, y - (dy or 0)), (x, y + (dy or 0))])
            about = comparison["metrics"][metric]
            lower = "" if about["higher_is_better"] else ", lower is better"
            axis.set_title(about["label"] + lower)
            axis.set_xlabel("mean of the high-resource directions")
            axis.set_ylabel("mean of the low-resource directions")
            axis.margins(0.18, 0.12)
            panels.append((axis, points, avoid))
        axes[0].plot([], [], "o-", color=BLUE, linewidth=0.8, markersize=5.5, label="static temperatures")
        if len(static) < len(rows):
            axes[0].plot([], [], "D", color=RED, markersize=5.5, label="other strategies")
        axes[0].plot([], [], "o", color=GREY, markerfacecolor="white", markersize=5.5, label="reference")
        spread = " (bars: sd over seeds)" if any(len(row["seeds"]) > 1 for row in rows) else ""
        figure.legend(loc="outside upper left", ncols=3, title=f"Split {comparison['split']}{spread}", alignment="left")
        settle(figure)
        for axis, points, avoid in panels:
            name_points(axis, points, colour, avoid)


def _point(row: Json, metric: str) -> tuple[float, float]:
    scores = row["scores"][metric]
    return scores["high_resource"]["mean"], scores["low_resource"]["mean"]


def _between(way: Sequence[tuple[float, float]], steps: int = 40) -> list[tuple[float, float]]:
    """Points along a polyline."""
    fractions = np.linspace(0, 1, steps)
    return [
        (float(x0 + t * (x1 - x0)), float(y0 + t * (y1 - y0)))
        for (x0, y0), (x1, y1) in pairwise(way)
        for t in fractions
    ]


def _interval(axis: Axes, found: Json, height: float, colour: str, marker: str, gid: str) -> None:
    low, high = found["interval"]
    axis.plot([low, high], [height, height], color=colour, linewidth=1.1)
    axis.plot(found["difference"], height, marker, color=colour, markersize=4.5, gid=gid)


def _difference_axis(axis: Axes, comparison: Json, metric: str) -> None:
    about = comparison["metrics"][metric]
    lower = "" if about["higher_is_better"] else " (lower is better)"
    axis.set_xlabel(f"{about['label']} minus {comparison['reference']}{lower}")
    axis.axvline(0, color="#555555", linewidth=0.8, zorder=1)
    axis.grid(axis="x", color=LIGHT_GREY, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
