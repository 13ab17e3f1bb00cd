"""The state of a grid: which runs are stored, complete or missing, and which losses other runs need from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenglot.balance import Signal
from evenglot.comparison.scored_run import ScoredRun, read_scored_run
from evenglot.config.changes import ENDS_RUN, FREE_IN_GRID
from evenglot.grid.keep import kept
from evenglot.grid.plan import Grid, Job
from evenglot.runs.events import DoneEvent
from evenglot.runs.log import read_log
from evenglot.runs.run import ChangedSettingsError, Run
from evenglot.runs.scores import scored_with
from evenglot.wording import some


@dataclass(frozen=True)
class Status:
    """The runs of a grid: stored in the --keep folder, complete in their own folder, or missing."""

    kept: list[Job]
    complete: list[Job]
    missing: list[Job]


def grid_status(grid: Grid, jobs: Sequence[Job], keep_in: Path | None = None) -> Status:
    """Find the stored, complete and missing runs. ChangedSettingsError if a folder has a run with other settings."""
    status = Status([], [], [])
    for job in jobs:
        if keep_in is not None and _is_kept(grid, job, jobs, keep_in):
            status.kept.append(job)
        else:
            (status.complete if finished(grid, job, jobs) else status.missing).append(job)
    return status


def _is_kept(grid: Grid, job: Job, jobs: Sequence[Job], folder: Path) -> bool:
    """Whether the run is stored, with all losses that other runs need (these may also be in the run folder)."""
    found = kept(job, grid.split, grid.beam, folder, Path(grid.base).parent)
    return found and all(file.exists() or (folder / job.name / file.name).exists() for file in wanted_losses(job, jobs))


def finished(grid: Grid, job: Job, jobs: Sequence[Job]) -> bool:
    """Whether the run is complete. ChangedSettingsError if the folder has a run with other settings."""
    if not job.run.config_file.exists():
        return False
    job.run.refuse_if_changed(job.config)
    changed = job.run.changes(job.config) - FREE_IN_GRID
    if changed and is_trained(job):  # even keys that may change on resume: the grid defines a different run
        raise ChangedSettingsError(
            f"{job.run.folder}: this run has another {some(sorted(changed))} than the grid; remove it, or choose "
            "another `out` for the grid",
            job.run.folder,
            changed,
        )
    made = scored_with(job.run, grid.split)
    scored = made is not None and made.get("beam", grid.beam) == grid.beam
    return is_trained(job) and scored and all(file.exists() for file in wanted_losses(job, jobs))


def is_trained(job: Job) -> bool:
    """Whether training has reached the end that the grid defines."""
    if not job.run.log_file.exists():
        return False
    last = next(reversed(read_log(job.run.log_file)), None)
    if not isinstance(last, DoneEvent) or last.stopped:
        return False
    before, now = (getattr(config.train, last.reason) for config in (job.run.config(), job.config))
    return now is not None and (before is None or now <= before)


def length_changed(job: Job) -> bool:
    """Whether the configured length of the run has changed since it was started."""
    return job.run.config_file.exists() and bool(job.run.changes(job.config) & ENDS_RUN)


def refuse_to_lengthen(jobs: Sequence[Job], missing: Sequence[Job]) -> None:
    """ChangedSettingsError if a run would be extended after other runs were trained with its losses as baseline."""
    for job in missing:
        given = [file for file in wanted_losses(job, jobs) if file.exists()]
        takers = [other for other in jobs if other.needs and other.needs[1] in given and other.run.config_file.exists()]
        if takers and length_changed(job):
            raise ChangedSettingsError(
                f"{job.run.folder}: cannot be made longer, because its losses are the baseline of {takers[0].name}; "
                "choose another `out` for the longer grid",
                job.run.folder,
                job.run.changes(job.config) & ENDS_RUN,
            )


def wanted_losses(job: Job, jobs: Sequence[Job]) -> dict[Path, Signal]:
    """The losses of a run that other runs use as baselines, by file."""
    return {other.needs[1]: other.needs[2] for other in jobs if other.needs and other.needs[0] == job.run}


def grid_results(grid: Grid, jobs: Sequence[Job], keep_in: Path | None = None) -> dict[str | None, list[ScoredRun]]:
    """The results of all scored runs, by set of directions; of stored runs, from the --keep folder."""
    found: dict[str | None, list[ScoredRun]] = {}
    for job in jobs:
        there = None if keep_in is None else Run(keep_in / job.name)
        run = there if there is not None and scored_with(there, grid.split) is not None else job.run
        if scored_with(run, grid.split) is not None:
            found.setdefault(job.direction, []).append(read_scored_run(run, job.strategy, grid.split))
    return found
