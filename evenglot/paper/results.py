"""The results of the paper's grids: finished runs found in a folder, by set of languages and direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from evenglot.comparison.bootstrap import Difference
from evenglot.comparison.compare import Comparison, Row, compare
from evenglot.comparison.run_names import SEED_FOLDER
from evenglot.comparison.scored_run import ScoredRun, read_scored_run
from evenglot.directions import parse, shared_side
from evenglot.paper.layout import ENGLISH
from evenglot.paper.numbers import layouts
from evenglot.runs.run import Run, RunError

METRIC = "bleu"


@dataclass(frozen=True, eq=False)
class Results:
    """The runs of one set of languages in one direction; empty if there are none."""

    dataset: str
    direction: str
    runs: list[ScoredRun] = field(default_factory=list)

    @cached_property
    def comparison(self) -> Comparison | None:
        """All rows against the reference, or against the first row if that is missing."""
        if not self.runs:
            return None
        reference = layouts()["reference"]
        found = compare(self.runs, reference if reference in {run.row for run in self.runs} else None, "test")
        if METRIC not in found.metrics:
            raise ValueError(
                f"{self.runs[0].folder}: BLEU is not comparable to that of the other runs; score them again"
            )
        return found

    @cached_property
    def rows(self) -> dict[str, Row]:
        """The rows by name."""
        return {row.name: row for row in self.comparison.rows} if self.comparison else {}

    def score(self, row: str, languages: Iterable[str]) -> float | None:
        """Mean BLEU over these languages, of all seeds; None if there is no such row, or a language was not scored."""
        names = [self.name_of(language) for language in languages]
        if self.comparison is None or row not in self.rows or not set(names) <= set(self.comparison.pairs):
            return None
        found = self.comparison.score(self.rows[row], METRIC, names)
        return None if found is None else found[0]

    def differences(self, row: str) -> dict[str, Difference]:
        """Differences to the reference by language, and of their average; empty for the reference itself."""
        reference = layouts()["reference"]
        if (
            self.comparison is None
            or row not in self.rows
            or self.comparison.reference.name != reference
            or row == reference
        ):
            return {}
        found = self.comparison.findings(self.rows[row], METRIC)
        by_language = {self.language_of(name): each for name, each in found.directions.items()}
        return {**by_language, "Avg": found.groups["mean"]}

    def best_temperature(self) -> str | None:
        """The row of ERM with the best average."""
        scores = {
            row: self.score(row, layouts()["sets"][self.dataset]["languages"]) for row in layouts()["temperatures"]
        }
        known = {row: score for row, score in scores.items() if score is not None}
        return max(known, key=known.__getitem__) if known else None

    def name_of(self, language: str) -> str:
        """The name of a direction: 'aze-en'."""
        return f"{language}-{ENGLISH}" if self.direction == "any-en" else f"{ENGLISH}-{language}"

    @staticmethod
    def language_of(name: str) -> str:
        """The language of a direction that is not English."""
        return next(part for part in name.split("-") if part != ENGLISH)


AllResults = Mapping[tuple[str, str], Results]  # by set and direction


def find_results(folders: Sequence[Path]) -> tuple[AllResults, list[str]]:
    """The scored runs in these folders, and in those inside, and warnings about the others."""
    layout, warnings = layouts(), []
    found = {
        (dataset, direction): Results(dataset, direction)
        for dataset in layout["sets"]
        for direction in layout["directions"]
    }
    for folder in folders:
        if not folder.is_dir():
            raise RunError(f"{folder}: no such folder; expected one with the runs of a grid")
        for file in sorted(folder.rglob("scores.json")):
            run = _read(Run(file.parent))
            place = _place(run)
            if place is None:
                warnings.append(f"{file.parent}: left out: not a set of languages of the paper")
            else:
                found[place].runs.append(run)
    if not any(each.runs for each in found.values()):
        raise RunError(
            f"{', '.join(map(str, folders))}: no scored runs of the paper's corpora; `evenglot grid` writes them"
        )
    return found, warnings


def _read(run: Run) -> ScoredRun:
    place = run.folder.resolve()
    return read_scored_run(run, (place.parent if SEED_FOLDER.fullmatch(place.name) else place).name, "test")


def _place(run: ScoredRun) -> tuple[str, str] | None:
    """The set of languages and the direction of a run; None if it is not one of the paper's."""
    directions = [parse(name) for name in run.pairs]
    shared = shared_side(directions)
    languages = {direction.src if shared == "target" else direction.tgt for direction in directions}
    english = {direction.tgt if shared == "target" else direction.src for direction in directions}
    for dataset, about in layouts()["sets"].items():
        if shared is not None and english == {ENGLISH} and languages == set(about["languages"]):
            return dataset, "any-en" if shared == "target" else "en-any"
    return None
