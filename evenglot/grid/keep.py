"""Results of completed runs as small files that can be shared: no weights, no text, no local paths."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from evenglot import yaml12
from evenglot.config import Config, differences
from evenglot.config.changes import FREE_IN_GRID
from evenglot.files import finished_folder, without_paths
from evenglot.grid.plan import Job
from evenglot.runs.log import copy_log
from evenglot.runs.results import seal_results
from evenglot.runs.run import BASELINES, ChangedSettingsError, Run, RunError
from evenglot.runs.scores import scored_with, scores_file, statistics_file

SCORES, STATISTICS = "scores*.json", "statistics*.npz"


def keep(job: Job, split: str, folder: Path, root: Path) -> None:
    """Copy the config, log, scores and baselines of a completed run; paths become relative to `root`.

    Scores of other splits that were kept earlier remain.
    """
    earlier = folder / job.name
    with finished_folder(earlier) as target:
        for file in (*earlier.glob(SCORES), *earlier.glob(STATISTICS)):
            shutil.copy(file, target / file.name)
        settings = _settings(job.config, root)
        if job.needs is not None:  # named by strategy and seed, not by the path on this machine
            settings["balance"]["baseline"] = _provider(job.needs[1])
        (target / "config.yaml").write_text(yaml12.dump(settings), encoding="utf-8")
        copy_log(job.run.log_file, target / "log.jsonl", lambda event: without_paths(event, root))
        for file in (scores_file(job.run, split), statistics_file(job.run, split), *job.run.folder.glob(BASELINES)):
            shutil.copy(file, target / file.name)
        seal_results(target)


def kept(job: Job, split: str, beam: int, folder: Path, root: Path) -> bool:
    """Whether this run is stored in the folder. ChangedSettingsError if the stored run has other settings."""
    there = Run(folder / job.name)
    if not there.folder.exists():
        return False
    try:
        settings = _settings(there.config(), there.folder.resolve())  # fills in the defaults of options added since
    except (OSError, ValueError) as error:
        raise RunError(f"{there.config_file}: cannot be read: {error}") from error
    wanted = _settings(job.config, root)
    if job.needs is not None:
        settings["balance"]["baseline"] = _provider(settings["balance"].get("baseline"))
        wanted["balance"]["baseline"] = _provider(job.needs[1])
    changed = differences(settings, wanted) - FREE_IN_GRID
    made = scored_with(there, split)
    if made is not None and made.get("beam", beam) != beam:
        changed.add("beam")
    if changed:
        raise ChangedSettingsError(
            f"{there.folder}: stored with other settings ({', '.join(sorted(changed))}); remove it, or choose another "
            "--keep folder",
            there.folder,
            changed,
        )
    return made is not None


def _provider(baseline: object) -> str:
    """Strategy, seed and file name of a baseline: the end of its path."""
    return "/".join(Path(str(baseline)).parts[-3:])


def restore_baselines(job: Job, folder: Path) -> None:
    """Copy the stored baselines of a run to its run folder, where other runs look for them."""
    for file in (folder / job.name).glob(BASELINES):
        job.run.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, job.run.folder / file.name)


def _settings(config: Config, root: Path) -> dict[str, Any]:
    plain, _ = yaml12.parse(yaml12.dump(config.model_dump(by_alias=True)))
    found: dict[str, Any] = without_paths(plain, root)
    return found
