"""The commands as Python functions, under the same names: `import evenglot; evenglot.train(...)`.

They show the same progress as the commands, and raise ValueError where a command would print one line and exit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from evenglot.comparison.compare import Comparison, comparison_of
from evenglot.comparison.compare import compare as compare_runs
from evenglot.comparison.run_names import named_runs
from evenglot.comparison.scored_run import read_scored_run
from evenglot.config import Config, load_config
from evenglot.config.models import config_of
from evenglot.corpus.store import Store
from evenglot.progress import Bars
from evenglot.runs.run import Run

Settings = Config | Mapping[str, Any] | str | os.PathLike[str]
AnyRun = Run | str | os.PathLike[str]


def prepare(config: Settings, overrides: Sequence[str] = (), *, on: Literal["here", "ray"] = "here") -> Store:
    """Clean the text, learn vocabularies and write the store, unless that is done; returns the store.

    `config` is the path of a config file, or its content as a dictionary (relative paths are then relative to the
    working directory); `overrides` are as after `--set`. `on`: this machine, or a Ray cluster.
    """
    from evenglot.corpus.prepare import prepare as prepare_store

    return prepare_store(_config(config, overrides, check_files=True), Bars(), on)


def train(config: Settings, out: str | os.PathLike[str], *, resume: bool = False, overrides: Sequence[str] = ()) -> Run:
    """Train a model in the folder `out`; returns the run. `resume`: continue it, or start it if there is none."""
    from evenglot.training.train import train as train_model

    train_model(_config(config, overrides, check_files=False), Path(out), resume=resume)
    return Run(Path(out))


def score(
    run: AnyRun,
    split: str = "test",
    *,
    beam: int = 5,
    engine: str = "torch",
    which: str = "best",
    device: str = "auto",
) -> dict[str, Any]:
    """Translate and score held-out data; writes scores.json to the run folder and returns its content."""
    from evenglot.inference.engines import SearchOptions
    from evenglot.scoring.score_run import score_run

    options: dict[str, Any] = {"engine": engine, "which": which, "device": device}
    scores, _ = score_run(_run(run), split, SearchOptions(beam), Bars(), **options)
    return scores


def compare(runs: Sequence[AnyRun], reference: str | None = None, split: str = "test") -> Comparison:
    """Compare scored runs, with significance tests. Print the result for a table; `as_json` has all numbers.

    Runs in NAME/seed-1, NAME/seed-2, ... are seeds of one strategy and form one row. 'NAME=RUN' sets the name of a row.
    """
    results = [read_scored_run(run, name, split) for name, run in _named(runs)]
    return compare_runs(results, reference, split)


def report(
    runs: AnyRun | Sequence[AnyRun], out: str | os.PathLike[str] = "report.html", reference: str | None = None
) -> Path:
    """Write an HTML report about one run, or several compared; returns the file."""
    from evenglot.reporting.page import write_report

    named = _named([runs] if isinstance(runs, Run | str | os.PathLike) else runs)
    names, homes = [name for name, _ in named], [run for _, run in named]
    warn = Bars().warn
    comparison = comparison_of(named, reference, warn)
    return write_report(homes, Path(out), comparison=comparison, names=names, warn=warn)


def _config(config: Settings, overrides: Sequence[str], *, check_files: bool) -> Config:
    if isinstance(config, Config):
        if overrides:
            raise ValueError("overrides: expected none for a configuration that is loaded already")
        return config
    if isinstance(config, Mapping):
        return config_of(config, overrides, check_files=check_files)
    return load_config(config, overrides, check_files=check_files)


def _run(run: AnyRun) -> Run:
    return run if isinstance(run, Run) else Run(Path(run))


def _named(runs: Sequence[AnyRun]) -> list[tuple[str, Run]]:
    return [(name, Run(folder)) for name, folder in named_runs([os.fspath(run) for run in runs])]
