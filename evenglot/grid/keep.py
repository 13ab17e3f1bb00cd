"""Finished runs as small files that can be shared: no weights, no text, no paths of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from evenglot import yaml12
from evenglot.config import Config, differences
from evenglot.files import finished_folder, without_paths
from evenglot.grid.plan import Job
from evenglot.runs.log import copy_log
from evenglot.runs.run import Run, RunError
from evenglot.runs.scores import scored_with, scores_file, statistics_file

BASELINES, SCORES, STATISTICS = "baseline*.json", "scores*.json", "statistics*.npz"
WHAT_DATA = ("directions", "grouping")  # the other keys of `data` say where the text is
FREE_TO_KEEP = {"store.folder", "store.threads"} | {
    f"train.{key}" for key in ("threads", "device", "log_every", "trackers", "warn_passes")
}


def keep(job: Job, split: str, folder: Path, root: Path) -> None:
    """Copy the configuration, log, scores and baselines of a finished run; paths become relative to `root`.

    Scores of another split that are kept already remain.
    """
    before = folder / job.name
    with finished_folder(before) as target:
        for file in (*before.glob(SCORES), *before.glob(STATISTICS)):
            shutil.copy(file, target / file.name)
        settings = _settings(job.config, root)
        if job.needs is not None:  # known by the run of the grid that it is of, wherever that was made
            settings["balance"]["baseline"] = _provider(job.needs[1])
        (target / "config.yaml").write_text(yaml12.dump(settings), encoding="utf-8")
        copy_log(job.run.log_file, target / "log.jsonl", lambda event: without_paths(event, root))
        for file in (scores_file(job.run, split), statistics_file(job.run, split), *job.run.folder.glob(BASELINES)):
            shutil.copy(file, target / file.name)


def kept(job: Job, split: str, beam: int, folder: Path, root: Path) -> bool:
    """Is this run kept there? RunError if the run there had other settings."""
    there = Run(folder / job.name)
    if not there.folder.exists():
        return False
    try:
        settings = _settings(there.config(), there.folder.resolve())  # with defaults of options it did not know yet
    except (OSError, ValueError) as error:
        raise RunError(f"{there.config_file}: cannot be read: {error}") from error
    wanted = _settings(job.config, root)
    where = {f"data.{key}" for key in (*settings["data"], *wanted["data"]) if key not in WHAT_DATA}
    if job.needs is not None:
        settings["balance"]["baseline"] = _provider(settings["balance"].get("baseline"))
        wanted["balance"]["baseline"] = _provider(job.needs[1])
    changed = differences(settings, wanted) - where - FREE_TO_KEEP
    made = scored_with(there, split)
    if made is not None and made.get("beam", beam) != beam:
        changed.add("beam")
    if changed:
        raise RunError(
            f"{there.folder}: was made with other settings ({', '.join(sorted(changed))}); remove it, or keep runs of "
            "the new settings elsewhere"
        )
    return made is not None


def _provider(baseline: object) -> str:
    """The strategy, seed and file of the run that a baseline is of: the end of its path."""
    return "/".join(Path(str(baseline)).parts[-3:])


def restore_baselines(job: Job, folder: Path) -> None:
    """Put the baselines of a kept run where other runs look for them."""
    for file in (folder / job.name).glob(BASELINES):
        job.run.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, job.run.folder / file.name)


def _settings(config: Config, root: Path) -> dict[str, Any]:
    plain, _ = yaml12.parse(yaml12.dump(config.model_dump(by_alias=True)))
    found: dict[str, Any] = without_paths(plain, root)
    return found
