"""All figures of `evenglot report --figures`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenglot.reporting.figures.canvas import Format
from evenglot.reporting.figures.comparisons import draw_comparison
from evenglot.reporting.figures.runs import draw_run
from evenglot.reporting.figures.simplex import draw_course
from evenglot.runs.history import History, history
from evenglot.runs.log import read_log

if TYPE_CHECKING:
    from evenglot.runs.run import Run


def draw_figures(
    runs: Sequence[tuple[str, Run]], comparison: Mapping[str, Any] | None, folder: str | Path, format: Format = "svg"
) -> list[Path]:
    """Figures of each run, in separate folders if there are several, and of their comparison; returns the files."""
    written = []
    for subfolder, (_, run) in zip(_subfolders(runs), runs, strict=True):
        written += draw_history(history(read_log(run.log_file)), Path(folder) / subfolder, format)
    if comparison is not None:
        written += draw_comparison(comparison, folder, format)
    return written


def draw_history(told: History, folder: Path, format: Format = "svg") -> list[Path]:
    """Figures of one run; returns the files."""
    written = draw_run(told, folder, format)
    if told.mixture and len(told.names) > 2:
        written.append(folder / f"simplex.{format}")
        draw_course(told, written[-1])
    return written


def _subfolders(runs: Sequence[tuple[str, Run]]) -> list[str]:
    """Distinct names that are safe as folder names; seeds of one strategy share a name and get a suffix."""
    if len(runs) == 1:
        return [""]
    safe = [re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run" for name, _ in runs]
    often = Counter(safe)
    with_seed = [
        f"{name}-{run.folder.name}" if often[name] > 1 else name for name, (_, run) in zip(safe, runs, strict=True)
    ]
    return [f"{name}-{i + 1}" if with_seed.count(name) > 1 else name for i, name in enumerate(with_seed)]
