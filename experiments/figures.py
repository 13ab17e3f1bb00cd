"""Pictures of the kept results: python -m experiments.figures. They go to `figures/` of each experiment."""

from __future__ import annotations

import shutil
from pathlib import Path

from evenglot.evaluation.compare import compare
from evenglot.evaluation.results import read_result
from evenglot.grid.plan import load_grid
from evenglot.report.figures import draw_comparison, draw_history
from evenglot.report.history import history
from evenglot.training.log import read_log
from experiments.kept import HERE, SEEDS, runs_of

# The strategy whose course is drawn: mixture and losses over time.
STORIES = {"related": "chi-R5", "related-long": "chi-R5-base100", "diverse": "chi-rho.1-base100"}


def main() -> None:
    """Draw the main rows of every experiment that have seeds enough, or as many as ERM."""
    for experiment, strategy in STORIES.items():
        for results in sorted((HERE / experiment / "results").iterdir()):
            _draw(HERE / experiment, results.name, strategy)


def _draw(experiment: Path, direction: str, strategy: str) -> None:
    folder = experiment / "figures" / direction
    shutil.rmtree(folder, ignore_errors=True)
    grid, _ = load_grid(experiment / f"main-{direction}.yaml")
    rows = {name: runs_of(experiment, direction, name) for name in grid.strategies}
    enough = min(SEEDS, len(rows["erm"]))
    whole = {name: runs for name, runs in rows.items() if len(runs) >= enough}
    if len(whole) > 1:
        results = [read_result(run, name, "test") for name, runs in whole.items() for run in runs]
        draw_comparison(compare(results, "erm", "test", print).as_json(), folder)
    if rows.get(strategy):
        draw_history(history(read_log(rows[strategy][0].log_file)), folder / strategy)


if __name__ == "__main__":
    main()
