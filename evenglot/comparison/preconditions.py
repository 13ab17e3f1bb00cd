"""Runs that cannot be compared: refused before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenglot.comparison.scored_run import ScoredRun


def refuse_different_tests(runs: Sequence[ScoredRun]) -> None:
    """Runs that were scored on different sentences cannot be compared sentence by sentence."""
    seen: dict[str, tuple[str, ScoredRun]] = {}
    for run in runs:
        for name, found in run.statistics.references.items():
            before, first = seen.setdefault(name, (found, run))
            if found != before:
                raise ValueError(
                    f"{name}: {first.folder} and {run.folder} were scored on different sentences; score both on one "
                    "test set"
                )


def refuse_twins(runs: Sequence[ScoredRun]) -> None:
    """A run that is given twice would be taken for two runs that agree: for training without noise."""
    seen: set[tuple[str, Path]] = set()
    for run in runs:
        if (run.row, run.folder.resolve()) in seen:
            raise ValueError(f"{run.folder}: given twice; once is enough")
        seen.add((run.row, run.folder.resolve()))
