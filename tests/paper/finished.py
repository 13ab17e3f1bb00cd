"""Finished runs of the paper's grids that never were: logs, scores and sentence statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from evenglot.paper.numbers import layouts, pairs
from evenglot.scoring.sentence_statistics import SentenceStatistics
from tests.comparison.test_compare import counts_of
from tests.logs import scores_json
from tests.reporting.synthetic import write_run

ROWS = {
    "ted_related": [
        *("erm", "tau-5", "tau-100", "multidds", "chi-ibr", "erm-step", "chi-rho.05-nobase", "chi-rho.1-nobase"),
        *("chi-rho.1-base1", "chi-rho.05-base100"),
    ],
    "ted_diverse": ["erm", "multidds", "chi-ibr"],
    "wmt": [
        *("erm", "tau-5", "tau-100", "multidds", "chi-ibr", "fastdro", "group-dro", "cvar-pd", "cvar-ibr", "chi-pd"),
        *("chi-rho.1-base1", "chi-rho.1-base100"),
    ],
}


def write_results(folder: Path, datasets: Iterable[str] = ROWS, rows: Iterable[str] | None = None) -> Path:
    """One seed of these rows in both directions; later rows, and large corpora, have better scores."""
    for dataset in datasets:
        for direction in layouts()["directions"]:
            sizes = sorted(pairs(dataset).items(), key=lambda item: -item[1])
            names = {f"{name}-en" if direction == "any-en" else f"en-{name}": count for name, count in sizes}
            for number, row in enumerate(rows or ROWS[dataset]):
                write_scored(folder / dataset / direction / row / "seed-222", names, number)
    return folder


def write_scored(folder: Path, sizes: Mapping[str, int], number: int = 0) -> None:
    """A scored run on corpora of these sizes; those with a higher number are better."""
    run = write_run(folder, pairs=sizes)
    counts = {
        name: counts_of(0.75 - 0.04 * place + 0.01 * number, name, 222 + number) for place, name in enumerate(sizes)
    }
    SentenceStatistics(counts, {name: f"{name} references" for name in sizes}).save(folder / "statistics.npz")
    content = scores_json(
        signature={"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nw:2"},
        directions={name: {} for name in sizes},
        worst={"direction": next(iter(sizes))},
        made={"beam": 5},
    )
    (run.folder / "scores.json").write_text(content)
