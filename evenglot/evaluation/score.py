"""Translate a held-out split of every direction and score it: `evenglot score`."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenglot.corpus.store import Store
from evenglot.directions import Direction, parse
from evenglot.evaluation.engines import SearchOptions
from evenglot.evaluation.scores import Scorer, summary
from evenglot.evaluation.translate import Translator
from evenglot.files import finished_folder, write_json
from evenglot.progress import Bars
from evenglot.training.run import Run, RunError


def translate_split(
    translator: Translator, store: Store, split: str, options: SearchOptions, folder: Path, bars: Bars
) -> None:
    """Write the translations of a split, a file for each direction: por-en.en; all of them or none."""
    with finished_folder(folder) as unfinished:
        for direction in _directions(store, split):
            sources = store.text(direction.name, split, "source")
            lines = []
            with bars.task(f"translating {split} {direction.name}", len(sources)) as advance:
                for best in translator.stream(sources, direction, options, bars.note):
                    lines.append(best[0].text.replace("\n", " "))
                    advance(1)
            _file(unfinished, direction).write_bytes("".join(f"{line}\n" for line in lines).encode())


def score_split(
    store: Store, split: str, folder: Path, *, tokenize: str = "13a", comet: str | None = None
) -> dict[str, Any]:
    """Scores of the translations in a folder, as scores.json has them."""
    scorer, scored, extra = Scorer(tokenize), {}, {}
    for direction in _directions(store, split):
        hypotheses = _read(_file(folder, direction))
        references = store.text(direction.name, split, "target")
        try:
            scored[direction.name] = scorer.score(hypotheses, references, direction.tgt)
        except ValueError as error:
            raise RunError(f"{_file(folder, direction)}: {error}") from error
        if comet is not None:
            sources = store.text(direction.name, split, "source")
            extra[direction.name] = {"comet": comet_score(comet, sources, hypotheses, references, folder)}
    return {
        "split": split,
        "signature": scorer.signature,
        "directions": {name: {**each.as_json(), **extra.get(name, {})} for name, each in scored.items()},
        **summary(scored, store.sizes),
    }


def write_scores(run: Run, scores: Mapping[str, Any]) -> Path:
    """scores.json is for the test set; other splits have names of their own."""
    name = "scores.json" if scores["split"] == "test" else f"scores-{scores['split']}.json"
    write_json(run.folder / name, dict(scores))
    return run.folder / name


def comet_score(command: str, sources: list[str], hypotheses: list[str], references: list[str], folder: Path) -> float:
    """COMET needs packages that quarrel with ours, so it runs as a command of another environment (`comet-score`)."""
    files = {"-s": sources, "-t": hypotheses, "-r": references}
    arguments = []
    for option, lines in files.items():
        file = folder / f".comet{option}"
        file.write_bytes("".join(f"{line}\n" for line in lines).encode())
        arguments += [option, str(file)]
    try:
        done = subprocess.run(
            [*shlex.split(command), *arguments, "--quiet", "--only_system"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise RunError(f"--comet {command}: failed: {said.strip().splitlines()[-1]}") from error
    finally:
        for option in files:
            (folder / f".comet{option}").unlink(missing_ok=True)
    found = re.findall(r"score:?\s+(-?\d+\.\d+)", done.stdout)
    if not found:
        raise RunError(f"--comet {command}: no score in what it printed")
    return float(found[-1])


def _directions(store: Store, split: str) -> list[Direction]:
    found = [parse(name) for name in store.directions if split in store.splits(name)]
    if not found:
        raise RunError(f"{store.folder}: no direction has a {split} set")
    return found


def _file(folder: Path, direction: Direction) -> Path:
    return folder / f"{direction.name}.{direction.tgt}"


def _read(file: Path) -> list[str]:
    """Lines end with a line feed and with nothing else."""
    try:
        lines = file.read_bytes().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{file}: cannot be read as translations: {error}") from error
    return lines[:-1] if lines[-1] == "" else lines
