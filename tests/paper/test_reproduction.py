"""The three commands, from synthetic downloads in the real formats to the tables and figures, at small size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenglot import yaml12
from evenglot.cli import app
from evenglot.paper.numbers import pairs
from evenglot.paper.ted import DIVERSE, RELATED
from evenglot.runs.run import Run
from tests.paper.downloads import ted_archive, ted_folders, wmt_folder

SMALL = [
    *("train.updates=200", "train.warmup=20", "train.learning_rate=5e-3", "train.decay_every=100", "train.device=cpu"),
    *("model.size=tiny", "model.dim=32", "model.ffn=64", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("model.heads=2", "model.dropout=0", "batches.tokens_per_batch=512", "batches.tokens_per_update=512"),
    *("train.log_every=50", "train.validate_every=50", "vocabulary.size_shared=60", "vocabulary.size_other=150"),
    "beam=1",
]
ROWS = {  # enough of each table; all rows take minutes
    "ted-related": ["erm", "chi-ibr", "chi-rho.1-nobase"],
    "ted-diverse": ["erm", "chi-ibr"],
    "wmt": ["erm", "tau-100", "chi-ibr", "group-dro", "chi-ibr-inverse-sqrt"],
}
SIZES = {  # about a thousandth of the real ones
    dataset: {name: 20 + count // 1000 for name, count in pairs(dataset).items()}
    for dataset in ("ted_related", "ted_diverse")
}


def evenglot(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, f"{done.output}\n{done.exception}"
    return done.stdout


@pytest.mark.slow
def test_from_downloads_to_tables_and_figures(tmp_path: Path) -> None:
    downloads = {
        "ted-related": ted_archive(tmp_path / "ted_talks.tar.gz", RELATED, SIZES["ted_related"]),
        "ted-diverse": ted_folders(tmp_path / "raw", DIVERSE, SIZES["ted_diverse"]),
        "wmt": wmt_folder(tmp_path / "downloads", {"deu": 250, "fra": 180, "tam": 60, "tur": 30}),
    }
    corpora = tmp_path / "corpora"
    for name, place in downloads.items():
        evenglot("recipe", name, place, corpora / name)
        grid = corpora / name / "paper.yaml"
        content, _ = yaml12.parse(grid.read_text())
        chosen = {row: content["strategies"][row] for row in ROWS[name]}
        settings = [*SMALL, f"strategies={yaml12.dump_line(chosen)}"]
        evenglot("grid", grid, "--jobs", 2, *(part for each in settings for part in ("--set", each)))

    said = evenglot("paper-tables", corpora, "--out", tmp_path / "paper")
    _schedules_are_those_of_the_rows(corpora)
    _tables_have_our_scores(said, corpora)
    figures = {path.name for path in (tmp_path / "paper" / "figures").iterdir()}
    assert figures == {f"figure-{number}.svg" for number in range(1, 9)}
    for name in ("tables.md", "tables.tex", "tables.html"):
        assert (tmp_path / "paper" / name).stat().st_size > 2000


def _schedules_are_those_of_the_rows(corpora: Path) -> None:
    for direction in ("any-en", "en-any"):
        runs = {row: Run(corpora / "wmt" / "results" / direction / row / "seed-222") for row in ROWS["wmt"]}
        assert {row: run.config().train.schedule for row, run in runs.items()} == {
            **dict.fromkeys(("erm", "tau-100", "group-dro", "chi-ibr-inverse-sqrt"), "inverse-sqrt"),
            "chi-ibr": "step",
        }
        baseline = Path(str(runs["chi-ibr"].config().balance.options["baseline"]))
        assert baseline.parent == runs["tau-100"].folder


def _tables_have_our_scores(said: str, corpora: Path) -> None:
    """The average of chi-IBR in Table 1, en→any of the related languages, is that of its scores; e of Table 4 too."""
    scores = json.loads((corpora / "ted-related/results/en-any/chi-ibr/seed-222/scores.json").read_text())
    average = scores["macro"]["bleu"]
    assert average > 1  # the models have learnt something
    section = said.partition("**TED related, en→any**")[2].partition("**TED diverse")[0]
    (line,) = [line for line in section.splitlines() if line.startswith("| χ-IBR ")]
    assert float(re.findall(r"[\d.]+", line)[-1]) == pytest.approx(average, abs=0.01)
    (line,) = [line for line in said.splitlines() if line.startswith("| (e) ")]
    assert float(line.split("|")[2]) == pytest.approx(average, abs=0.01)
    assert "[" in line.split("|")[3]
    assert line.split("|")[4].strip() == "22.21"
    (line,) = [line for line in said.splitlines() if line.startswith("| GDRO with PD ")]
    assert "-" not in [cell.strip() for cell in line.split("|")[2:-1]]
