"""A metric that is only registered appears everywhere: scores, files, comparison, report."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from evenglot.comparison.compare import compare
from evenglot.comparison.scored_run import read_scored_run
from evenglot.comparison.tables import sheets, to_json, to_latex, to_markdown
from evenglot.inference.engines import SearchOptions
from evenglot.progress import Bars
from evenglot.reporting.figures.comparisons import draw_comparison
from evenglot.reporting.page_data import page_data
from evenglot.runs.run import Run
from evenglot.scoring.metrics import METRICS, Metric
from evenglot.scoring.score_run import score_run
from evenglot.scoring.sentence_statistics import SentenceStatistics
from evenglot.scoring.tables import score_summary, score_table

QUICK = SearchOptions(1, max_length=6)


class LengthCounter:
    """Characters of the translation and of the reference."""

    signature = "characters|v1"

    def count(self, hypotheses, references):
        return np.array([[len(one), len(other)] for one, other in zip(hypotheses, references, strict=True)])


LENGTH = Metric(
    key="length",
    label="Length %",
    higher_is_better=False,
    digits=1,
    score=lambda counts: 100 * counts[..., 0] / np.maximum(1, counts[..., 1]),
    counter=lambda options: LengthCounter(),
)


@pytest.fixture
def scored(run, tmp_path, monkeypatch):
    """Two scored runs, and the scores of the first."""
    monkeypatch.setitem(METRICS, "length", LENGTH)
    homes = [Run(Path(shutil.copytree(run, tmp_path / name))) for name in ("one", "two")]
    results = [score_run(home, "test", QUICK, Bars(), device="cpu") for home in homes]
    return homes, *results[0]


def printed(*what) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*what)
    return capture.get()


def test_it_appears_without_touching_anything_else(scored, tmp_path):
    (one, two), scores, store = scored
    assert "Length %" in printed(score_table(scores, store.sizes))
    assert "Length % characters|v1" in score_summary(scores)

    written = json.loads((one.folder / "scores.json").read_text())
    assert written["signature"]["length"] == "characters|v1"
    mean = np.mean([row["length"] for row in written["directions"].values()])
    for part in ("macro", "worst", "low_resource", "high_resource"):
        assert written[part]["length"] > 0
    assert written["macro"]["length"] == pytest.approx(mean)
    statistics = SentenceStatistics.load(one.folder / "statistics.npz")
    assert all(counts["length"].shape[1] == 2 for counts in statistics.counts.values())

    runs = [read_scored_run(home, home.folder.name, "test") for home in (one, two)]
    comparison = compare(runs, "one", "test").as_json()
    assert comparison["metrics"]["length"]["label"] == "Length %"
    assert comparison["rows"][0]["scores"]["length"]["mean"]["mean"] == pytest.approx(mean)
    assert comparison["rows"][1]["difference"]["length"]["mean"]["difference"] == 0
    titles = [sheet.title for sheet in sheets(comparison)]
    assert sum(title.startswith("Length %") for title in titles) == 3  # scores, differences, summary
    for text in (to_json(comparison), to_markdown(comparison)):
        assert "Length %" in text
    assert r"Length \%" in to_latex(comparison)
    differences = draw_comparison(comparison, tmp_path / "figures")[0]
    assert "Length %" in differences.read_text()

    page = page_data([one, two], comparison=comparison)
    assert {"key": "length", "scores_key": "length"}.items() <= page["metrics"][-1].items()
    assert all(row["length"] > 0 for row in page["runs"][0]["rows"])
    assert page["runs"][0]["scores"]["macro"]["length"] == pytest.approx(mean, rel=1e-3)
    assert page["comparison"]["rows"][0]["scores"]["length"]["mean"]["mean"] == pytest.approx(mean, abs=1e-3)


def test_runs_scored_before_it_was_there_are_still_compared(scored):
    (one, two), _, _ = scored
    file = two.folder / "statistics.npz"
    before = SentenceStatistics.load(file)
    counts = {name: {key: each[key] for key in each if key != "length"} for name, each in before.counts.items()}
    SentenceStatistics(counts, before.references).save(file)
    content = json.loads((two.folder / "scores.json").read_text())
    del content["signature"]["length"]
    del content["checksum"]  # files of that time had none
    (two.folder / "scores.json").write_text(json.dumps(content))
    comparison = compare([read_scored_run(home, home.folder.name, "test") for home in (one, two)], "one", "test")
    assert comparison.metrics == ["bleu", "chrf", "ter", "loss"]
    assert [(each.kind, each.rows, each.metrics) for each in comparison.warnings][:1] == [
        ("metric-left-out", ("two",), ("length",))
    ]
