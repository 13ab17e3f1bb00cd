"""Pictures. matplotlib is an extra (`pip install "evenglot[figures]"`), so it is imported only when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from evenglot.simulate import Simulation


def draw_mixtures(simulations: Mapping[str, Simulation], path: str | Path, title: str) -> None:
    """One panel a strategy: the share q of each group over the epochs, log scale, data proportions dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(3, len(simulations))
    rows = math.ceil(len(simulations) / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4 * columns, 2.8 * rows + 0.9), sharex=True, sharey=True, squeeze=False, dpi=110
    )
    first = next(iter(simulations.values()))
    by_size = sorted(first.names, key=lambda name: first.p[name])
    colours = {name: plt.colormaps["turbo"](0.05 + 0.9 * i / len(by_size)) for i, name in enumerate(by_size)}
    smallest = min(first.p[name] for name in by_size if first.p[name] > 0)
    for axis, (strategy, simulation) in zip(axes.flat, simulations.items(), strict=False):
        for name in by_size:
            shares = [max(mixture[name], smallest / 30) for mixture in simulation.mixtures]  # a share of 0: at the edge
            axis.plot(range(1, len(shares) + 1), shares, color=colours[name], linewidth=1.8, label=name)
            axis.axhline(simulation.p[name], color=colours[name], linewidth=0.7, linestyle=(0, (4, 4)), alpha=0.7)
        axis.set_title(strategy, fontsize=10, loc="left")
        axis.set_yscale("log")
        axis.set_ylim(smallest / 30, 1)
        axis.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(simulations) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("epoch")
    for row in axes:
        row[0].set_ylabel("q")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    figure.legend(handles, labels, loc="lower center", ncols=min(len(labels), 10), frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    plt.close(figure)
