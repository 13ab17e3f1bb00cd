"""A run is a folder a person can read: config.yaml, log.jsonl, checkpoints/, vocabulary/, baseline.json, ...

This file knows where things are in it, and whether a new run may begin there or an old one go on.
Checkpoints need torch, which takes seconds to load: they are imported where they are asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenglot.config import Config, ConfigError, differences, load_config
from evenglot.config.changes import FREE_ON_RESUME, free_on_resume
from evenglot.config.models import HEADINGS
from evenglot.directions import Side
from evenglot.files import finished_folder
from evenglot.runs.events import DoneEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.wording import some

if TYPE_CHECKING:
    from evenglot.runs.checkpoint import Checkpoint


class RunError(ValueError):
    """A run cannot be started, resumed or read; the message says why and what to do."""


class ChangedSettingsError(RunError):
    """The run in `folder` was made with other settings; `keys` are the ones that differ, as 'section.key'."""

    def __init__(self, message: str, folder: Path, keys: Iterable[str]) -> None:
        super().__init__(message)
        self.folder, self.keys = folder, frozenset(keys)


@dataclass(frozen=True)
class Run:
    """The folder of a run."""

    folder: Path

    @property
    def config_file(self) -> Path:
        """The resolved configuration."""
        return self.folder / "config.yaml"

    @property
    def log_file(self) -> Path:
        """The record of everything."""
        return self.folder / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / "checkpoints"

    @property
    def vocabulary(self) -> Path:
        """The folder of the SentencePiece models, so that a run can translate without its store."""
        return self.folder / "vocabulary"

    @property
    def baseline_file(self) -> Path:
        """Reference losses that were computed for this run (`balance.baseline: auto`)."""
        return self.folder / "baseline.json"

    @property
    def reference(self) -> Run:
        """The run that was trained for them."""
        return Run(self.folder / "reference")

    def config(self) -> Config:
        """The configuration it was trained with."""
        if not self.config_file.exists():
            raise RunError(f"{self.folder}: not a run (it has no config.yaml); `evenglot train` makes one")
        return load_config(self.config_file, check_files=False, hints=False)

    def own_baseline_file(self) -> Path:
        """Where the losses of this run's model go, unless somebody says otherwise."""
        if self.config().balance.reference_mixture is not None:
            raise RunError(f"{self.baseline_file}: this run was trained against it; write elsewhere, with --out FILE")
        return self.baseline_file

    def best(self) -> Checkpoint:
        """The checkpoint with the best validation."""
        from evenglot.runs import checkpoint

        found = checkpoint.best(self.checkpoints)
        if found is None:
            raise RunError(f"{self.folder}: no checkpoint yet; `evenglot train` writes one after each interval")
        return found

    def begin(self, config: Config, vocabularies: Mapping[Side, Path]) -> None:
        """Write what does not change: the configuration and the vocabularies."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config.save(self.config_file)
        with finished_folder(self.vocabulary) as unfinished:
            for side, file in vocabularies.items():
                shutil.copy(file, unfinished / f"{side}.model")

    def refuse_if_taken(self) -> None:
        """Do not begin where there is a run already, or anything else that would be written over."""
        from evenglot.runs import checkpoint

        if found := checkpoint.checkpoints(self.checkpoints):
            raise RunError(
                f"{self.folder}: there is a run already, at update {found[-1].step}; go on with --resume, or choose "
                "another folder with --out"
            )
        self.refuse_if_emptied()
        written = self.config_file.read_text(encoding="utf-8") if self.config_file.exists() else None
        logged = self.log_file.exists() and self.log_file.stat().st_size > 0  # empty: of a run that could not begin
        if (written is not None and not written.startswith(HEADINGS)) or (written is None and logged):
            raise RunError(f"{self.folder}: has files that no run wrote; choose a folder of its own with --out")

    def refuse_if_emptied(self) -> None:
        """A run that ended, and whose checkpoints somebody removed, cannot go on; its record must not be lost."""
        if any(self.checkpoints.glob("*")) or not self.log_file.exists():
            return
        if of_kind(read_log(self.log_file), DoneEvent):
            raise RunError(
                f"{self.folder}: there is a run already, whose checkpoints were removed; choose another folder, with "
                "--out"
            )

    def changes(self, config: Config) -> set[str]:
        """The keys, 'section.key', in which a configuration differs from the one this run was begun with."""
        try:
            before = self.config()
        except ConfigError as error:
            raise RunError(f"{self.config_file}: cannot go on with it: {error}") from error
        return differences(_comparable(before), _comparable(config))

    def refuse_if_changed(self, config: Config) -> None:
        """A run resumes with the settings it started with, except for keys that are free to change."""
        if changed := sorted(self.changes(config) - free_on_resume(config)):
            raise ChangedSettingsError(
                f"{self.folder}: {some(changed)} changed since this run began; resume with the old settings (they are "
                "in its config.yaml), or start a new run with --out",
                self.folder,
                changed,
            )


def _comparable(config: Config) -> dict[str, Any]:
    """The settings to compare; of `data`, only what must not change: the text is not read again and may have moved."""
    content = config.model_dump(by_alias=True)
    fixed = {key: value for key, value in content["data"].items() if f"data.{key}" not in FREE_ON_RESUME}
    content["data"] = {**fixed, "directions": config.data.groups}
    return content
