"""Checks that runs can be compared, done before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenglot.comparison.scored_run import ScoredRun


def refuse_different_tests(runs: Sequence[ScoredRun]) -> None:
    """Raise ValueError if runs were scored on different sentences: the bootstrap is paired by sentence."""
    seen: dict[str, tuple[str, ScoredRun]] = {}
    for run in runs:
        for name, found in run.statistics.references.items():
            before, first = seen.setdefault(name, (found, run))
            if found != before:
                raise ValueError(
                    f"{name}: {first.folder} and {run.folder} were scored on different sentences; score both on the "
                    "same test set"
                )


def refuse_twins(runs: Sequence[ScoredRun]) -> None:
    """Raise ValueError if a run is given twice, as this would make seed variance look smaller than it is."""
    seen: set[tuple[str, Path]] = set()
    for run in runs:
        if (run.row, run.folder.resolve()) in seen:
            raise ValueError(f"{run.folder}: given twice; remove one")
        seen.add((run.row, run.folder.resolve()))
