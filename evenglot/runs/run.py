"""The run folder: config.yaml, log.jsonl, checkpoints/, vocabulary/, baseline.json, ...

Paths of its files, and the checks whether a new run may start in it or an old one may be resumed.
Checkpoints need torch, which takes seconds to load, so they are imported inside functions.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenglot.config import Config, ConfigError, differences, load_config
from evenglot.config.balance import model_of
from evenglot.config.changes import FREE_ON_RESUME, REMEDIES, free_on_resume
from evenglot.config.models import HEADINGS
from evenglot.directions import Side
from evenglot.files import LOCK, UNFINISHED, finished_folder, write_text
from evenglot.reading import UnreadableError, read_text
from evenglot.runs.events import ConfigEvent, DoneEvent, Event, ResumeEvent, of_kind
from evenglot.runs.frames import Library, frame
from evenglot.runs.log import read_log
from evenglot.wording import some

if TYPE_CHECKING:
    from evenglot.runs.checkpoint import Checkpoint

OUTPUT, GRID_LOCK = "output.txt", ".grid.lock"  # what a grid puts into the folder of a run, beside its baselines
# What may be in the folder of a run before its config.yaml: of one that failed to start, of a grid, of trackers.
OWN_FILES = {LOCK, "log.jsonl", "checkpoints", "vocabulary", "reference", OUTPUT, GRID_LOCK}
OWN_FILES |= {"tensorboard", "wandb", "trackio", "mlflow"}
BASELINES = "baseline*.json"


LONGEST_SHOWN = 40  # characters of a setting in a message


class RunError(ValueError):
    """A run cannot be started, resumed or read; the message has the reason and what to do."""


class ChangedSettingsError(RunError):
    """The run in `folder` has other settings; `keys` are those that differ, as 'section.key'."""

    def __init__(self, message: str, folder: Path, keys: Iterable[str]) -> None:
        super().__init__(message)
        self.folder, self.keys = folder, frozenset(keys)


@dataclass(frozen=True, repr=False)
class Run:
    """A run folder."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))  # a string, in a notebook

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def __fspath__(self) -> str:
        """The folder, so that a run can be given where its path is expected."""
        return str(self.folder)

    def frame(self, kind: str, library: Library | None = None) -> Any:
        """The events of a kind ('validation', 'step', 'balance', ...) as a data frame, one row for each event.

        Values by direction have columns such as `loss.por-en`. `library`: pandas or polars; by default the first that
        is installed.
        """
        if not self.log_file.exists():
            raise RunError(f"{self.folder}: not a run folder (no log.jsonl); create one with `evenglot train`")
        return frame(read_log(self.log_file), kind, library)

    @property
    def config_file(self) -> Path:
        """The resolved configuration."""
        return self.folder / "config.yaml"

    @property
    def log_file(self) -> Path:
        """The event log."""
        return self.folder / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / "checkpoints"

    @property
    def vocabulary(self) -> Path:
        """The folder of the vocabularies or the pretrained tokenizer, so that a run can translate without the store."""
        return self.folder / "vocabulary"

    def vocabulary_file(self, side: Side) -> Path:
        """The SentencePiece model of one side."""
        return self.vocabulary / f"{side}.model"

    @property
    def baseline_file(self) -> Path:
        """Baseline losses computed for this run (`balance.baseline: auto`)."""
        return self.folder / "baseline.json"

    @property
    def reference(self) -> Run:
        """The reference run, trained for the baseline losses."""
        return Run(self.folder / "reference")

    def config(self, overrides: Sequence[str] = ()) -> Config:
        """Load the configuration of the run, with these settings ('section.key=value') changed."""
        if not self.config_file.exists():
            raise RunError(f"{self.folder}: not a run folder (no config.yaml); create one with `evenglot train`")
        if not self.config_file.is_file():  # a user may pipe a configuration, but not into a run
            raise RunError(f"{self.config_file}: not a regular file; restore a backup")
        return load_config(self.config_file, overrides, check_files=False, hints=False)

    def settings(self, events: Sequence[Event]) -> Mapping[str, Any]:
        """The logged configuration, by section, with the remedies (a lower learning rate) the run was resumed with."""
        found: dict[str, Any] = dict(of_kind(events, ConfigEvent)[0].config)
        changed = {key for event in of_kind(events, ResumeEvent) for key in event.changed} & REMEDIES
        now = self.config().model_dump(by_alias=True) if changed else {}
        for section, key in (each.split(".") for each in changed):
            found[section] = {**found[section], key: now[section][key]}
        return found

    def own_baseline_file(self) -> Path:
        """The default output file of `evenglot baseline` for this run."""
        if self.config().balance.reference_mixture is not None:
            raise RunError(f"{self.baseline_file}: the baseline used by this run; choose another file with --out FILE")
        return self.baseline_file

    def best(self) -> Checkpoint:
        """The checkpoint with the best validation score; DamagedCheckpointError if a damaged one might be it."""
        return self.choose("best")

    def choose(self, which: str) -> Checkpoint:
        """The checkpoint with this name: best, last, average, or a number of updates."""
        from evenglot.runs import checkpoint_folder

        if (found := checkpoint_folder.find(self.checkpoints, which)) is not None:
            return found
        steps = [str(each.step) for each in checkpoint_folder.checkpoints(self.checkpoints)]
        if not steps:
            raise RunError(f"{self.folder}: no checkpoints; `evenglot train` writes one after each interval")
        raise RunError(f"{self.folder}: no checkpoint {which!r}; available: {', '.join(['best', 'last', *steps])}")

    def begin(self, config: Config, vocabularies: Iterable[Path]) -> None:
        """Write the configuration and copy the files of the vocabularies."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.config_file, config.to_yaml(), own=True)
        with finished_folder(self.vocabulary) as unfinished:
            for file in vocabularies:
                shutil.copy(file, unfinished / file.name)

    def refuse_if_taken(self) -> None:
        """Refuse to start in a folder that has a run or other files that would be overwritten."""
        from evenglot.runs import checkpoint_folder

        if found := checkpoint_folder.checkpoints(self.checkpoints):
            if not self.config_file.exists():
                raise RunError(
                    f"{self.config_file}: missing, but the folder contains a run (at update {found[-1].step}); restore "
                    "a backup, copy the configuration of this run there, or choose another folder with --out"
                )
            raise RunError(
                f"{self.folder}: contains a run (at update {found[-1].step}); continue it with --resume, or choose "
                "another folder with --out"
            )
        self.refuse_if_emptied()
        written = self._written_config()
        logged = self.log_file.exists() and self.log_file.stat().st_size > 0  # empty: of a run that failed to start
        if (written is not None and not written.startswith(HEADINGS)) or (written is None and logged):
            raise RunError(f"{self.folder}: contains files that no run wrote; choose another folder with --out")

    def _written_config(self) -> str | None:
        """The text of config.yaml; None if there is none, empty if it is not text."""
        try:
            return read_text(self.config_file)
        except FileNotFoundError:
            return None
        except UnreadableError:
            return ""

    def refuse_other_files(self) -> None:
        """Refuse a folder that has no run, but files that are not of one; before anything is written there."""
        if self.config_file.exists() or not self.folder.is_dir():
            return
        paths = {path for path in self.folder.iterdir() if not path.name.endswith(UNFINISHED)}
        if others := sorted({path.name for path in paths if not path.match(BASELINES)} - OWN_FILES):
            raise RunError(
                f"{self.folder}: has files that are not of a run ({some(others)}); choose another folder with --out"
            )

    def refuse_if_emptied(self) -> None:
        """Refuse to overwrite the log of a run that ended and whose checkpoints were removed."""
        if any(self.checkpoints.glob("*")) or not self.log_file.exists():
            return
        if of_kind(read_log(self.log_file), DoneEvent):
            raise RunError(
                f"{self.folder}: contains a run whose checkpoints were removed; choose another folder with --out"
            )

    def changes(self, config: Config) -> set[str]:
        """The keys, as 'section.key', in which a configuration differs from that of this run."""
        try:
            before = self.config()
        except ConfigError as error:
            raise RunError(f"{self.config_file}: cannot resume with this configuration: {error}") from error
        return differences(_comparable(before), _comparable(config))

    def told(self, changed: Iterable[str], config: Config) -> list[str]:
        """Which value of these keys became which, the telling one first."""
        before, after = _comparable(self.config()), _comparable(config)
        return [f"{key}: {_shown(before, key)} -> {_shown(after, key)}" for key in _telling(changed, config)]

    def refuse_if_changed(self, config: Config) -> None:
        """Refuse to resume with changed settings, except for keys that may change on resume."""
        changed = self.changes(config) - free_on_resume(config)
        if changed:
            told = some(self.told(changed, config))
            raise ChangedSettingsError(
                f"{self.folder}: settings changed since this run started ({told}); resume with the old ones "
                f"(`evenglot train --resume {self.folder}`), or start a new run with --out",
                self.folder,
                changed,
            )


def _comparable(config: Config) -> dict[str, Any]:
    """The settings to compare. Of `data`, only fixed keys: the text is not read again and may have moved."""
    content = config.model_dump(by_alias=True)
    fixed = {key: value for key, value in content["data"].items() if f"data.{key}" not in FREE_ON_RESUME}
    content["data"] = {**fixed, "directions": config.data.groups}
    return content


def _telling(changed: Iterable[str], config: Config) -> list[str]:
    """The keys to tell: if the strategy is another one, it comes first, with its options that are not defaults."""
    if "balance.strategy" not in changed:
        return sorted(changed)
    fields = model_of(config.balance.strategy).model_fields
    options = config.balance.options.items()
    own = {"balance.p_unit", *(f"balance.{key}" for key, value in options if value != fields[key].default)}
    return ["balance.strategy", *sorted(key for key in changed if key in own or not key.startswith("balance."))]


def _shown(content: Mapping[str, Any], key: str) -> str:
    """A setting for a message, on one line and not too long; '(unset)' where there is none."""
    value: Any = content
    for part in key.split(".", 1):
        value = value.get(part) if isinstance(value, Mapping) else None
    text = "(unset)" if value is None else " ".join(str(value).split())
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."
