"""The paper's figures, from our results: mixtures and losses over epochs, and the gains of both groups of languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from evenglot.comparison.bootstrap import Difference
from evenglot.paper.numbers import bleu, layouts, pairs, printed
from evenglot.paper.results import METRIC, AllResults, Results
from evenglot.reporting.figures import Format, draw_simplex
from evenglot.reporting.figures.canvas import (
    BLUE,
    DASHED,
    GREY,
    LIGHT_GREY,
    ORANGE,
    colours,
    log_shares,
    name_lines,
    picture,
    settle,
)
from evenglot.runs.events import IntervalEvent, of_kind
from evenglot.runs.history import History, history
from evenglot.runs.log import read_log
from evenglot.runs.run import Run
from evenglot.scoring.summary import halves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUPS = {"low_resource": ("low-resource", ORANGE), "high_resource": ("high-resource", BLUE)}
COLUMNS = 4  # panels of mixtures in a row
EXAMPLE = {"fr": 0.1, "zh": 0.3, "en": 0.6}  # shares of the three languages in Figure 1


@dataclass(frozen=True)
class Course:
    """The history of a run, with the number of epochs (passes over as many pairs as the data have) at each update."""

    told: History
    steps: tuple[int, ...]
    epochs: tuple[float, ...]

    def at(self, steps: Sequence[int]) -> list[float]:
        """The epochs at these updates."""
        return [float(epoch) for epoch in np.interp(steps, self.steps, self.epochs)]

    @property
    def end(self) -> float:
        """The epochs at the end of the run."""
        return self.at([self.told.done.step])[0] if self.told.done else self.epochs[-1]


def course(run: Run) -> Course:
    """Read the log of a run. An interval of the default length is one epoch."""
    events = read_log(run.log_file)
    told = history(events)
    intervals = {event.step: event for event in of_kind(events, IntervalEvent)}  # one that was resumed appears twice
    steps, epochs = [0], [0.0]
    for step, event in sorted(intervals.items()):
        steps.append(step + event.updates)
        epochs.append(epochs[-1] + sum(event.pairs.values()) / sum(told.pairs.values()))
    return Course(told, tuple(steps), tuple(epochs))


def draw_paper_figures(results: AllResults, folder: Path, format: Format = "svg") -> dict[Path, str]:
    """Draw the figures for which there are results; returns the files and their captions."""
    written: dict[Path, str] = {}

    def path(number: int, caption: str) -> Path:
        file = folder / f"figure-{number}.{format}"
        written[file] = f"Figure {number}: {caption}"
        return file

    draw_simplex(EXAMPLE, path(1, "chi-square balls and tempered distributions around the data of three languages"))
    if gains := _gains(results):
        caption = "BLEU of chi-IBR minus the best ERM, mean of the low- and the high-resource languages"
        _draw_gains(gains, path(2, caption))
    for number, dataset, direction in (
        (3, "ted_diverse", "any-en"),
        (4, "ted_diverse", "en-any"),
        (7, "wmt", "any-en"),
        (8, "wmt", "en-any"),
    ):
        if found := _course(results[dataset, direction]):
            title = _title(results[dataset, direction])
            caption = f"best response q (log scale; less than p / 100 is drawn there) over epochs, {title}; dashed: p"
            _draw_mixtures(found, results[dataset, direction], path(number, caption))
    for number, dataset in ((5, "ted_diverse"), (6, "wmt")):
        of_set = {direction: results[dataset, direction] for direction in layouts()["directions"]}
        panels = {_title(each): (each, found) for each in of_set.values() if (found := _course(each))}
        if panels:
            title = layouts()["sets"][dataset]["name"]
            caption = f"running losses that chi-IBR responds to, over epochs, {title}; dashed: baseline"
            _draw_losses(panels, path(number, caption))
    return dict(sorted(written.items()))


def _course(results: Results) -> Course | None:
    """The course of the paper's method: of the first seed; None if it has not run, or the mixture never changed."""
    row = results.rows.get(layouts()["method"])
    found = course(Run(row.runs[0].folder)) if row else None
    return found if found and found.told.running_losses else None


def _title(results: Results) -> str:
    return f"{layouts()['sets'][results.dataset]['name']}, {layouts()['directions'][results.direction]}"


# --------------------------------------------------------------------------------------------- Figures 3, 4, 7, 8


def _draw_mixtures(found: Course, results: Results, path: Path) -> None:
    """A panel for each language: q over epochs on a log scale, and the share of the data."""
    languages = layouts()["sets"][results.dataset]["languages"]
    epochs, end = found.at(found.told.mixture.steps), found.end
    rows = -(-len(languages) // COLUMNS)
    with picture(path, 2.7 * COLUMNS, 0.5 + 1.9 * rows) as figure:
        axes = figure.subplots(rows, COLUMNS, squeeze=False)
        colour = colours(languages)
        for place, (axis, language) in enumerate(zip(axes.flat, languages, strict=False)):
            name = results.name_of(language)
            share = found.told.p[name]
            values = [max(value or 0.0, share / 100) for value in found.told.mixture.values[name]]
            axis.plot(
                [*epochs, end],
                [*values, values[-1]],
                drawstyle="steps-post",
                color=colour[language],
                gid=f"q.{language}",
            )
            axis.axhline(share, color=GREY, linestyle=DASHED, linewidth=1.0, gid=f"p.{language}")
            seen = [*values, share]
            _share_axis(axis, min(seen) / 1.5, max(seen) * 1.5)
            axis.set_title(language)
            _epochs(axis, end, label=place >= len(languages) - COLUMNS)
        for axis in axes.flat[len(languages) :]:
            axis.set_visible(False)
        figure.suptitle(
            f"Best response q over epochs: {_title(results)} (dashed: share of the data)",
            x=0.01,
            ha="left",
            fontsize=10,
        )


def _share_axis(axis: Axes, low: float, high: float) -> None:
    """A logarithmic axis of shares with at least two labels, even if the range is narrow."""
    log_shares(axis, low, high)
    digits = (1, 2, 5) if high / low > 8 else (1, 1.5, 2, 3, 4, 5, 7)
    ticks = [digit * 10.0**power for power in range(-7, 1) for digit in digits]
    axis.set_yticks([tick for tick in ticks if low <= tick <= high])
    axis.minorticks_off()


# --------------------------------------------------------------------------------------------------- Figures 5, 6


def _draw_losses(panels: Mapping[str, tuple[Results, Course]], path: Path) -> None:
    """Running losses over epochs, a panel for each direction."""
    with picture(path, 5.2 * len(panels), 4.0) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        names = []
        for axis, (title, (results, found)) in zip(axes, panels.items(), strict=True):
            languages = layouts()["sets"][results.dataset]["languages"]
            colour = colours(languages)
            epochs = found.at(found.told.running_losses.steps)
            ends = {}
            for language in languages:
                name = results.name_of(language)
                losses = [np.nan if loss is None else loss for loss in found.told.running_losses.values[name]]
                axis.plot(epochs, losses, color=colour[language], linewidth=1.5, gid=f"loss.{language}")
                if name in found.told.baseline:
                    axis.axhline(
                        found.told.baseline[name], color=colour[language], linestyle=DASHED, linewidth=0.7, alpha=0.7
                    )
                ends[language] = (epochs[-1], losses[-1])
            axis.set_title(f"{title} (dashed: baseline)" if found.told.baseline else title)
            axis.set_ylabel("running loss, nats per token")
            _epochs(axis, found.end)
            names.append((axis, {name: end for name, end in ends.items() if np.isfinite(end[1])}, colour))
        for axis, *_ in names:
            axis.set_ylim(axis.get_ylim())  # the names must not change it
        settle(figure)
        for axis, found_ends, colour in names:
            name_lines(axis, found_ends, colour)


def _epochs(axis: Axes, end: float, *, label: bool = True) -> None:
    axis.set_xlim(0, end)
    axis.locator_params(axis="x", integer=True)
    axis.set_xlabel("epochs" if label else "")


# ------------------------------------------------------------------------------------------------------- Figure 2

Gains = dict[str, tuple[dict[str, Difference], dict[str, float]]]  # ours and the paper's by group, by set and direction


def _gains(results: AllResults) -> Gains:
    """BLEU of the paper's method minus the best ERM; empty where one of them is missing."""
    method = layouts()["method"]
    found: Gains = {}
    for each in results.values():
        best = each.best_temperature()
        if each.comparison is None or best is None or method not in each.rows:
            continue
        compared = each.comparison.against(best)
        row = next(row for row in compared.rows if row.name == method)
        ours = {group: gain for group, gain in compared.findings(row, METRIC).groups.items() if group in GROUPS}
        found[f"{_title(each)}\nbest ERM: {best}"] = ours, _printed_gains(each)
    return found


def _printed_gains(results: Results) -> dict[str, float]:
    """The same of the paper's numbers; its Table 1 has the best ERM, its Table 2 all temperatures."""
    by_method = {
        row["method"]: bleu(results.dataset, results.direction, row["method"]) for row in _printed_rows(results)
    }
    erm = max(
        (found for method, found in by_method.items() if method.startswith("ERM")), key=lambda found: found["Avg"]
    )
    larger, smaller = halves(pairs(results.dataset))
    return {
        group: fmean(by_method["chi-IBR"][name] - erm[name] for name in names)
        for group, names in (("low_resource", smaller), ("high_resource", larger))
    }


def _printed_rows(results: Results) -> Sequence[Mapping[str, Any]]:
    return [
        row for row in printed()["rows"] if (row["dataset"], row["direction"]) == (results.dataset, results.direction)
    ]


def _draw_gains(gains: Gains, path: Path) -> None:
    """Two bars for each set and direction, with intervals, and the paper's values as marks."""
    with picture(path, 1.6 + 1.5 * len(gains), 3.8) as figure:
        axis = figure.subplots()
        for place, (ours, theirs) in enumerate(gains.values()):
            for (group, (_, colour)), offset in zip(GROUPS.items(), (-0.2, 0.2), strict=True):
                if (gain := ours.get(group)) is not None:
                    axis.bar(place + offset, gain.difference, 0.36, color=colour, gid=f"gain.{place}.{group}", zorder=2)
                    axis.plot([place + offset] * 2, gain.interval, color="#333333", linewidth=1.2, zorder=3)
                axis.plot(
                    place + offset, theirs[group], "D", color="#000000", markerfacecolor="white", markersize=5, zorder=4
                )
        axis.axhline(0, color="#555555", linewidth=0.8)
        axis.grid(axis="y", color=LIGHT_GREY, linewidth=0.6)
        axis.set_axisbelow(True)
        axis.set_xticks(range(len(gains)), [title.replace(", ", "\n") for title in gains], fontsize=8)
        axis.set_ylabel("BLEU of χ-IBR minus best ERM")
        for label, colour in GROUPS.values():
            axis.bar(0, 0, color=colour, label=label)
        axis.plot([], [], "D", color="#000000", markerfacecolor="white", markersize=5, label="paper")
        figure.legend(loc="outside upper left", ncols=3)
