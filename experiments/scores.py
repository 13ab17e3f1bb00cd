"""Tables of scores: strategies compared to ERM, to the paper's numbers and to each other, and per language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from evenglot import yaml12
from evenglot.comparison.compare import Comparison, Row
from experiments.kept import HERE, SEEDS, compared_to, runs_of
from experiments.paper import paper_numbers
from experiments.wording import Table, language, signed, written

GROUPS = {"mean": "chrF++", "low_resource": "smaller four", "high_resource": "larger four", "worst": "worst by loss"}
OTHER_RUNS = {"chi-ideal": 9}  # reference runs of baselines that were not computed by the grid (ideal.py)
DUELS = (  # experiment, direction, row, the row it is compared to
    ("related", "any-en", "chi-R5-base100", "tau-1.5-often"),
    ("related", "any-en", "chi-R5-nobase", "tau-1.5-often"),
    ("related", "en-any", "chi-R5-base100", "tau-1.5-often"),
    ("related", "en-any", "chi-R5-nobase", "tau-1.5-often"),
    ("related-long", "any-en", "chi-R5-base100", "tau-1.5"),
    ("diverse", "any-en", "chi-rho.1-base100", "tau-1.5"),
    ("diverse", "any-en", "chi-rho.1-nobase", "tau-1.5"),
    ("diverse", "any-en", "chi-tau5-base100", "tau-5"),
    ("diverse", "any-en", "tau-2", "tau-1.5"),
    ("related", "any-en", "tau-2", "tau-1.5"),
    ("related", "any-en", "rising-100", "tau-1.5-often"),
    ("related", "any-en", "rising-100", "chi-R5-base100"),
    ("related", "any-en", "rising-100", "tau-100"),
    ("related", "any-en", "rising-100", "tau-2"),
    ("related", "any-en", "rising-100", "halfway"),
    ("related", "any-en", "halfway", "tau-1.5-often"),
    ("related", "any-en", "halfway", "tau-2"),
    ("related", "en-any", "rising-100", "tau-1.5-often"),
    ("related", "en-any", "rising-100", "chi-R5-base100"),
    ("related", "en-any", "rising-100", "tau-100"),
    ("diverse", "any-en", "rising-100", "tau-2"),
    ("related", "any-en", "rising", "chi-R5-base100"),
    ("related", "any-en", "tau-1.5-often", "tau-1.5"),
)
SECOND_THOUGHTS = (
    ("related", "any-en", "rising-100", "erm"),
    ("related", "any-en", "rising-100", "tau-1.5-often"),
    ("related", "en-any", "rising-100", "erm"),
    ("related", "en-any", "rising-100", "tau-1.5-often"),
)
SEEN = 1  # the seed that was known when these rows were planned


def beside_the_paper(folder: Path, table: str, direction: str) -> Table:
    """Scores of ERM, and for the other rows of a grid the differences to ERM with confidence intervals."""
    comparison, rows = _rows_of(folder, table, direction)
    erm, directions = comparison.reference, list(comparison.pairs)
    largest, smallest = directions[0], directions[-1]
    paper = paper_numbers(f"{folder.name}/{table}", direction)
    heading = ["", "seeds", *GROUPS.values(), "BLEU", "loss/character", "cost"]
    heading += [f"passes {language(smallest)} / {language(largest)}"]
    heading += [f"paper, BLEU ({paper['where']})"] if paper else []
    lines = []
    for row in rows:
        cells = _scores(comparison, row) if row is erm else list(_differences(comparison, row))
        runs = (row.cost.updates + row.cost.reference_updates) / erm.cost.updates + OTHER_RUNS.get(row.name, 0)
        cells += [f"{runs:.0f}", f"{row.passes[smallest]:.1f} / {row.passes[largest]:.1f}"]
        cells += [_paper_cell(paper, row.name)] if paper else []
        lines.append([row.name, str(len(row.seeds)), *cells])
    return heading, lines


def languages(folder: Path, direction: str) -> Table:
    """chrF++ per language: scores of ERM and differences to it, bold if significant after Holm's correction."""
    comparison, rows = _rows_of(folder, "main", direction)
    lines = []
    for row in rows:
        if row is comparison.reference:
            cells = [f"{fmean(row.scores('chrf', name)):.1f}" for name in comparison.pairs]
        else:
            found = comparison.findings(row, "chrf")
            loud = {*found.wins, *found.losses} if _seeds(comparison, row) >= SEEDS else set()
            cells = [written(each, 1, loud=name in loud) for name, each in found.directions.items()]
        lines.append([row.name, str(len(row.seeds)), *cells])
    return ["", "seeds", *_sizes(comparison)], lines


def passes(folder: Path, direction: str) -> Table:
    """Number of passes over each corpus."""
    comparison, rows = _rows_of(folder, "main", direction)
    lines = [[row.name, *(f"{row.passes[name]:.1f}" for name in comparison.pairs)] for row in rows]
    return ["", *_sizes(comparison)], lines


def duels() -> Table:
    """Comparisons of rows with other rows than ERM."""
    return _heading_of_duels(), [_duel(*each) for each in DUELS if _is_run(*each)]


def fresh() -> Table:
    """Comparisons of rows that were planned after the results of one seed were known, without that seed."""
    return _heading_of_duels(), [_duel(*each, without_seed=SEEN) for each in SECOND_THOUGHTS]


def _heading_of_duels() -> list[str]:
    return ["", "", "against", "seeds", *GROUPS.values(), "BLEU", "loss/character"]


def _is_run(experiment: str, direction: str, *rows: str) -> bool:
    return all(runs_of(HERE / experiment, direction, name) for name in rows)


def _duel(experiment: str, direction: str, name: str, opponent: str, without_seed: int | None = None) -> list[str]:
    comparison = compared_to(opponent, HERE / experiment, direction, without_seed)
    row = next(row for row in comparison.rows if row.name == name)
    about = [f"{experiment}, {direction}", name, opponent, str(_seeds(comparison, row))]
    return [*about, *_differences(comparison, row)]


def _rows_of(folder: Path, grid: str, direction: str) -> tuple[Comparison, list[Row]]:
    """The comparison to ERM, and the finished rows of a grid in its order."""
    content, _ = yaml12.parse((folder / f"{grid}-{direction}.yaml").read_text(encoding="utf-8"))
    comparison = compared_to("erm", folder, direction)
    found = {row.name: row for row in comparison.rows}
    return comparison, [found[name] for name in content["strategies"] if name in found]


def _sizes(comparison: Comparison) -> list[str]:
    return [f"{language(name)} ({pairs:,})" for name, pairs in comparison.pairs.items()]


def _scores(comparison: Comparison, row: Row) -> list[str]:
    """Means over seeds and languages."""

    def mean(metric: str, group: str = "mean") -> float:
        found = comparison.score(row, metric, comparison.members(row, metric, group))
        assert found is not None
        return found[0]

    cells = [f"{mean('chrf', group):.1f}" for group in GROUPS]
    cells[-1] += f" {comparison.worst(row, 'chrf')}"
    return [*cells, f"{mean('bleu'):.1f}", f"{mean('loss'):.3f}"]


@cache  # a row is in several tables
def _differences(comparison: Comparison, row: Row) -> tuple[str, ...]:
    """Differences to the reference, as cells of a table."""
    of_chrf, of_bleu, of_loss = (comparison.findings(row, metric).groups for metric in ("chrf", "bleu", "loss"))
    loud = _seeds(comparison, row) >= SEEDS
    shown = [*((of_chrf[group], 1) for group in GROUPS), (of_bleu["mean"], 1), (of_loss["mean"], 3)]
    return tuple(written(each, digits, loud=loud) for each, digits in shown)


def _seeds(comparison: Comparison, row: Row) -> int:
    """The number of seeds behind a difference."""
    return min(len(row.seeds), len(comparison.reference.seeds))


def _paper_cell(paper: Mapping[str, Any], name: str) -> str:
    if name == "erm":
        return f"{paper['erm']:.2f}"
    return signed(paper[name] - paper["erm"], 2) if name in paper else "–"
