"""Figures of the stored results, in `figures/` of each experiment: python -m experiments.figures"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from evenglot.grid.plan import load_grid
from evenglot.reporting.figures import draw_comparison, draw_history
from evenglot.runs.history import history
from evenglot.runs.log import read_log
from experiments.kept import HERE, SEEDS, compared_to, runs_of

# Strategies with figures of mixture and losses over time.
STORIES = {
    "related": ("chi-R5", "chi-R5-base100"),
    "related-long": ("chi-R5-base100",),
    "diverse": ("chi-rho.1-base100",),
}


def main() -> None:
    """Draw the main rows of every experiment that have enough seeds (or as many as ERM)."""
    for experiment, strategies in STORIES.items():
        for results in sorted((HERE / experiment / "results").iterdir()):
            _draw(HERE / experiment, results.name, strategies)


def _draw(experiment: Path, direction: str, strategies: Sequence[str]) -> None:
    folder = experiment / "figures" / direction
    shutil.rmtree(folder, ignore_errors=True)
    grid, _ = load_grid(experiment / f"main-{direction}.yaml")
    comparison = compared_to("erm", experiment, direction).as_json()
    rows = {row["name"]: row for row in comparison["rows"]}
    enough = min(SEEDS, len(rows["erm"]["seeds"]))
    shown = [rows[name] for name in grid.strategies if name in rows and len(rows[name]["seeds"]) >= enough]
    if len(shown) > 1:
        draw_comparison(comparison | {"rows": shown}, folder)
    for name in strategies:
        if runs := runs_of(experiment, direction, name):
            draw_history(history(read_log(runs[0].log_file)), folder / name)


if __name__ == "__main__":
    main()
