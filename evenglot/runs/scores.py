"""Scores and translations in the run folder: paths and reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenglot.directions import Direction, parse
from evenglot.reading import read_bytes, read_json
from evenglot.records import read_record
from evenglot.runs.events import CheckpointEvent, DoneEvent, Event, ValidationEvent, of_kind
from evenglot.runs.run import Run, RunError
from evenglot.seals import refuse_changed, unsealed

Scored = Mapping[str, float | None]  # by metric, with further numbers such as `lines`


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The content of scores.json. Scores are keyed by the names of metrics in this file."""

    split: str
    signature: Mapping[str, str]
    directions: Mapping[str, Scored]
    macro: Mapping[str, float]
    worst: Mapping[str, float | str | None]  # with the name of the direction
    low_resource: Mapping[str, Any] | None = None  # means over the smaller half, and its directions
    high_resource: Mapping[str, Any] | None = None
    made: Mapping[str, float | str | bool | None] = field(default_factory=dict)  # settings of the search
    translations: Mapping[str, Sequence[int]] = field(default_factory=dict)  # size and CRC-32 by file; older: none

    @property
    def worst_direction(self) -> str:
        """The direction with the worst score."""
        return str(self.worst["direction"])

    def as_json(self) -> dict[str, Any]:
        """The form of the file."""
        return dict(vars(self))


def read_scores_file(file: Path) -> Scores:
    """Read and check a file of scores: every metric that has a mean has a score in every direction."""
    try:
        scores = read_record(Scores, unsealed(read_json(file)))
        for name, row in {**scores.directions, "worst": scores.worst}.items():
            if missing := [metric for metric in scores.macro if not isinstance(row.get(metric), int | float)]:
                raise ValueError(f"`{name}`: no number for {missing[0]}")
        if scores.worst.get("direction") not in scores.directions:
            raise ValueError("`worst`: not one of the directions")
        for half in (scores.low_resource or {}, scores.high_resource or {}):
            means = {key: mean for key, mean in half.items() if key != "directions"}
            if wrong := [metric for metric, mean in means.items() if not isinstance(mean, int | float | None)]:
                raise ValueError(f"`low_resource`, `high_resource`: no number for {wrong[0]}")
        if {"which", "step"} & set(scores.made) and type(scores.made.get("step")) is not int:
            raise ValueError("`made.step`: expected a number of updates")
        if any(len(each) != 2 for each in scores.translations.values()):
            raise ValueError("`translations`: expected sizes and checksums")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot be read as scores ({error}); run `evenglot score` again") from error
    return scores


def scored_with(run: Run, split: str) -> dict[str, Any] | None:
    """The scoring settings (beam, checkpoint, ...) of a run; None if there are no scores or they are damaged."""
    try:
        made = read_scores_file(scores_file(run, split)).made
    except (OSError, ValueError):
        return None
    return dict(made) if statistics_file(run, split).exists() else None


def scores_file(run: Run, split: str) -> Path:
    """scores.json for the test set, scores-SPLIT.json for other splits."""
    return run.folder / ("scores.json" if split == "test" else f"scores-{split}.json")


def statistics_file(run: Run, split: str) -> Path:
    """Sentence-level statistics: statistics.npz for the test set, statistics-SPLIT.npz for other splits."""
    return run.folder / ("statistics.npz" if split == "test" else f"statistics-{split}.npz")


def scored_translations(run: Run, split: str) -> Mapping[str, Sequence[int]]:
    """Checksums of the translations that have been scored; none if the split was not scored."""
    file = scores_file(run, split)
    return read_scores_file(file).translations if file.exists() else {}


def read_translations(run: Run, split: str, name: str, scored: Mapping[str, Sequence[int]]) -> list[str]:
    """The translations of one direction written by `evenglot score`; ValueError unless they are those scored."""
    file = translations_file(run, split, name)
    if file.name in scored:
        refuse_changed(file.parent, {file.name: scored[file.name]}, "run `evenglot score` again")
    return read_lines(file)


def translations_file(run: Run, split: str, name: str) -> Path:
    """The file of the translations of one direction in the run folder."""
    return translation_file(run.folder / "hypotheses" / split, parse(name))


def translation_file(folder: Path, direction: Direction) -> Path:
    """The file of the translations of one direction in a folder: por-en.en."""
    return folder / f"{direction.name}.{direction.tgt}"


def read_lines(file: Path) -> list[str]:
    """Lines of a UTF-8 file, split at line feeds only."""
    try:
        lines = read_bytes(file).decode("utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot read translations: {error}; run `evenglot score` again") from error
    return lines[:-1] if lines[-1] == "" else lines


def read_scores(run: Run) -> Scores | None:
    """The content of scores.json, or of another split's file; None if the run was not scored."""
    for file in (run.folder / "scores.json", *sorted(run.folder.glob("scores-*.json"))):
        if file.exists():
            return read_scores_file(file)
    return None


def are_outdated(made: Mapping[str, Any], events: Sequence[Event]) -> bool:
    """Is the best checkpoint of a run, or the best one so far, newer than the one that was scored as the best?"""
    best = [event.best_step for event in of_kind(events, DoneEvent)]
    if not best:  # not finished
        saved = {event.step for event in of_kind(events, CheckpointEvent)}
        best = [event.step for event in of_kind(events, ValidationEvent) if event.best and event.step in saved]
    return made.get("which") == "best" and bool(best) and made.get("step", best[-1]) != best[-1]
