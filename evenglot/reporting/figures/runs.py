"""Figures of one run from its event log: mixture, losses used by the strategy, and validation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenglot.reporting.figures.canvas import (
    DASHED,
    GREY,
    LIGHT_GREY,
    Format,
    colours,
    log_shares,
    name_lines,
    picture,
    settle,
)
from evenglot.runs.history import History, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 12  # up to this number, every direction has a colour and a label
NAMED_ENDS = 3  # beyond that, this many of the largest and of the smallest; the others are grey
MARKED = 30  # up to this number, the points of a line have markers
MARKED_INTERVALS = 60
MOST_POINTS = 400  # per line, to limit the file size
LEAST_SHARE = 1 / 100  # of the smallest data share: lower limit of the axis of a mixture


@dataclass(frozen=True)
class Panel:
    """One plot: a line per direction, and an optional dashed reference level."""

    kind: str
    title: str
    label: str
    series: Series
    levels: Mapping[str, float] = field(default_factory=dict)


def draw_run(history: History, folder: str | Path, format: Format = "svg") -> list[Path]:
    """Write the figures mixture, losses and validation, if the log has data for them; returns the files."""
    panels = {"mixture": [_mixture(history)], "losses": [_losses(history)], "validation": _validation(history)}
    written = []
    for name, several in panels.items():
        if shown := [panel for panel in several if panel.series]:
            path = Path(folder) / f"{name}.{format}"
            _draw(history, shown, path)
            written.append(path)
    return written


def named_directions(names: Sequence[str]) -> list[str]:
    """Directions with coloured and labelled lines: all, or of many the largest and smallest (largest first)."""
    return list(names) if len(names) <= NAMED else [*names[:NAMED_ENDS], *names[-NAMED_ENDS:]]


def _mixture(history: History) -> Panel:
    strategy = history.about.strategy or "the strategy"
    return Panel("q", f"Mixture q by {strategy} (dashed: share of the data)", "q", history.mixture, history.p)


def _losses(history: History) -> Panel:
    if history.running_losses:
        dashes = " (dashed: baseline)" if history.baseline else ""
        title = f"Running losses at the end of each interval{dashes}"
        return Panel("running-loss", title, "loss", history.running_losses, history.baseline)
    return Panel("training-loss", "Training losses", "loss", history.train_losses)


def _validation(history: History) -> list[Panel]:
    return [
        Panel("validation-loss", "Validation: loss per token", "nats per token", history.valid_losses),
        Panel(
            "loss-per-character",
            "Validation: loss per character",
            "nats per character",
            history.valid_losses_per_character,
        ),
        Panel("chrf", "Validation: chrF of greedy translations", "chrF", history.chrf),
    ]


def _draw(history: History, panels: Sequence[Panel], path: Path) -> None:
    named = named_directions(history.names)
    colour = colours(named)
    end = _end(history)
    with picture(path, max(7.2, 5.2 * len(panels)), 4.2) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, panel in zip(axes, panels, strict=True):
            axis.set_title(panel.title)
            axis.set_xlim(0, end)
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
            axis.set_ylabel(panel.label)
            grey = f"; grey: the other {len(history.names) - len(named)}" if len(named) < len(history.names) else ""
            intervals = [step for step in history.interval_starts if 0 < step < end]
            unit = history.unit
            if unit == "updates" and 0 < len(intervals) <= MARKED_INTERVALS:
                for step in intervals:
                    axis.axvline(step, color=LIGHT_GREY, linewidth=0.8, zorder=0)
                axis.set_xlabel(f"updates (vertical lines: intervals{grey})")
            else:
                axis.set_xlabel(unit + (f" ({grey[2:]})" if grey else ""))
        ends = [_lines(axis, panel, history.names, colour, end) for axis, panel in zip(axes, panels, strict=True)]
        settle(figure)
        for axis, heights in zip(axes, ends, strict=True):
            name_lines(axis, heights, colour)


def _lines(
    axis: Axes, panel: Panel, names: Sequence[str], colour: Mapping[str, str], end: int
) -> dict[str, tuple[float, float]]:
    """Draw the lines of a panel; returns the end points of the labelled ones."""
    is_mixture = panel.kind == "q"
    lowest = _lowest_share(panel) if is_mixture else -math.inf
    if is_mixture:
        log_shares(axis, lowest)
    chosen = _evenly(len(panel.series.steps), MOST_POINTS)
    steps = [panel.series.steps[i] for i in chosen]
    ends: dict[str, tuple[float, float]] = {}
    for name in sorted(names, key=lambda name: name in colour):  # coloured lines on top of grey ones
        known = panel.series.values[name]
        values = [max(_number(known[i]), lowest) for i in chosen]  # NaN remains a gap
        if all(math.isnan(value) for value in values):
            continue
        has_colour = name in colour
        style: dict[str, Any] = (
            {"color": colour[name], "linewidth": 1.7} if has_colour else {"color": GREY, "linewidth": 0.5, "alpha": 0.6}
        )
        if is_mixture:  # a mixture is in effect until the next one
            axis.plot([*steps, end], [*values, values[-1]], drawstyle="steps-post", gid=f"q.{name}", **style)
        else:
            marker = "o" if has_colour and len(steps) <= MARKED else ""
            axis.plot(steps, values, marker=marker, markersize=3, clip_on=False, gid=f"{panel.kind}.{name}", **style)
        if not has_colour:
            continue
        last = max(i for i, value in enumerate(values) if not math.isnan(value))
        ends[name] = (end if is_mixture else steps[last], values[last])
        level = panel.levels.get(name)
        if level is not None and (level > 0 or not is_mixture):
            axis.axhline(
                level, color=colour[name], linewidth=0.8, linestyle=DASHED, alpha=0.8, gid=f"{panel.kind}-level.{name}"
            )
    return ends


def _lowest_share(panel: Panel) -> float:
    """Lower limit of the axis of a mixture; smaller shares, including 0, are drawn at the limit (log scale)."""
    shares = [share for share in panel.levels.values() if share > 0]
    least = min(shares, default=LEAST_SHARE)
    seen = [value for values in panel.series.values.values() for value in map(_number, values) if value > 0]
    return max(min([least, *seen]), least * LEAST_SHARE) / 1.3


def _evenly(count: int, most: int) -> list[int]:
    """At most `most` of `count` positions, evenly spaced, including the first and the last."""
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def _number(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else math.nan


def _end(history: History) -> int:
    """The last update with any data."""
    series = (history.mixture, history.running_losses, history.train_losses, history.valid_losses, history.chrf)
    steps: Iterable[int] = (step for each in series for step in each.steps)
    return max([1, *steps, history.done.step if history.done else 0])
