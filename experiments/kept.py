"""The stored results of finished runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from evenglot.comparison.compare import Comparison, compare
from evenglot.comparison.scored_run import read_scored_run
from evenglot.runs.run import Run

HERE = Path(__file__).parent
SEEDS = 3  # required for a claim


def strategies_of(folder: Path, direction: str) -> list[str]:
    """The strategies with finished runs, in alphabetical order."""
    return sorted({file.parts[-3] for file in (folder / "results" / direction).glob("*/seed-*/scores.json")})


def runs_of(folder: Path, direction: str, strategy: str) -> list[Run]:
    """The finished runs of a strategy."""
    return [Run(path.parent) for path in sorted((folder / "results" / direction / strategy).glob("seed-*/scores.json"))]


@cache
def compared_to(reference: str, folder: Path, direction: str, without_seed: int | None = None) -> Comparison:
    """The comparison of all rows; more rows give a better estimate of the seed variance."""
    return _comparison(folder, direction, without_seed).against(reference)


@cache
def _comparison(folder: Path, direction: str, without_seed: int | None) -> Comparison:
    names = strategies_of(folder, direction)
    results = [read_scored_run(run, name, "test") for name in names for run in runs_of(folder, direction, name)]
    chosen = [result for result in results if result.seed != without_seed]
    return compare(chosen, None, "test")
