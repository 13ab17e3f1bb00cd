"""Tables of the docs from the kept results, beside the paper's numbers: python -m experiments.tables

In docs/results.md and in the README of each experiment it rewrites what stands between `<!-- NAME -->` and
`<!-- end -->`, NAME being a grid file of an experiment (related/table-a-any-en), or `related/lengths-any-en`:
validation on the way; `related/noise-any-en`: what the mixtures of chi-IBR follow; `related/bias-any-en`: what means of
batches are off by; `all/duels`: rows that are compared with another one than ERM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from evenglot import yaml12
from evenglot.evaluation.bootstrap import Difference
from evenglot.evaluation.compare import Comparison, Row, compare
from evenglot.evaluation.results import read_result
from evenglot.evaluation.statistics import Numbers
from evenglot.report.history import History, history
from evenglot.training.log import read_log
from evenglot.training.run import Run

HERE = Path(__file__).parent
PAGES = (HERE.parent / "docs" / "results.md", *sorted(HERE.glob("*/README.md")))
BLOCK = re.compile(r"(?P<open><!-- (?P<name>\S+/\S+) -->\n).*?(?P<close>\n<!-- end -->)", re.DOTALL)
SEEDS = 3  # that a claim needs
LENGTHS = {"related": (1000, 2000, 3000), "related-long": (3000, 6000, 9000), "diverse": (2000, 4000, 6000)}
MEANS_OF_BATCHES = "chi-R5-ema"  # the strategy that goes by them, with intervals enough

GROUPS = {"mean": "chrF++", "low_resource": "smaller four", "high_resource": "larger four", "worst": "worst by loss"}
OTHER_RUNS = {"chi-ideal": 9}  # that its baselines were made of by hand (ideal.py)
DUELS = (  # experiment, direction, row, what it is set beside
    ("related", "any-en", "chi-R5-base100", "tau-1.5-often"),
    ("related", "any-en", "chi-R5-nobase", "tau-1.5-often"),
    ("related", "en-any", "chi-R5-base100", "tau-1.5-often"),
    ("related", "en-any", "chi-R5-nobase", "tau-1.5-often"),
    ("related-long", "any-en", "chi-R5-base100", "tau-1.5"),
    ("diverse", "any-en", "chi-rho.1-base100", "tau-1.5"),
    ("diverse", "any-en", "chi-rho.1-nobase", "tau-1.5"),
    ("diverse", "any-en", "chi-tau5-base100", "tau-5"),
    ("diverse", "any-en", "tau-2", "tau-1.5"),
    ("related", "any-en", "tau-1.5-often", "tau-1.5"),
)

# What the paper's tables call our rows, and what they are compared to there.
METHODS = {
    "tau-5": "ERM_tau5",
    "tau-100": "ERM_tau100",
    "multidds": "MultiDDS",
    "chi-paper": "chi-IBR",
    "chi-R5": "chi-IBR",
    "chi-rho.1": "chi-IBR",
    "fastdro": "FastDRO",
    "group-dro": "GDRO_PD",
    "cvar-pd": "CVaR-GDRO_PD",
    "cvar-ibr": "CVaR-GDRO_IBR",
    "chi-pd": "chi2-GDRO_PD",
}
TABLES = {  # where the paper has the strategies of ours: its table, its corpus, what we call that
    "related/table-a": ("tab:ted:full", "ted_related", "TED related"),
    "related/table-b": ("tab:wmt:dro", "wmt", "WMT"),
    "related/main": ("tab:ted:full", "ted_related", "TED related"),
    "related-long/main": ("tab:ted:full", "ted_related", "TED related"),
    "diverse/main": ("tab:ted:full", "ted_diverse", "TED diverse"),
}
ABLATION = {  # of TED, en-any only: smaller and larger radius
    "tau-100": "ERM tau=100",
    "chi-R5-nobase": "chi-IBR rho=0.05 no baseline",
    "chi-R10-nobase": "chi-IBR rho=0.1 no baseline",
    "chi-R5": "chi-IBR rho=0.05 baseline tau=1",
    "chi-R10": "chi-IBR rho=0.1 baseline tau=1",
    "chi-R5-base100": "chi-IBR rho=0.05 baseline tau=100",
}


def main() -> None:
    """Rewrite the blocks."""
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


def renewed(text: str) -> str:
    """The same text with all of its tables made anew."""
    return BLOCK.sub(lambda found: f"{found['open']}{_table(found['name'])}{found['close']}", text)


def _table(name: str) -> str:
    folder, _, table = name.partition("/")
    if name == "all/duels":
        return _markdown(*_duels())
    direction = "-".join(table.split("-")[-2:])
    if table.startswith("lengths-"):
        return _markdown(*_lengths(HERE / folder, direction))
    if table.startswith("noise-"):
        return _markdown(*_noise(HERE / folder, direction))
    if table.startswith("bias-"):
        return _markdown(*_bias(HERE / folder, direction))
    content, _ = yaml12.parse((HERE / folder / f"{table}.yaml").read_text(encoding="utf-8"))
    return _markdown(*_beside_the_paper(HERE / folder, table, direction, list(content["strategies"])))


def _beside_the_paper(
    folder: Path, table: str, direction: str, strategies: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Scores of ERM, and differences to it with their intervals."""
    comparison = _comparison(folder, direction, "erm")
    erm, directions = comparison.reference, list(comparison.pairs)
    largest, smallest = directions[0], directions[-1]
    paper = _paper(f"{folder.name}/{table.removesuffix(f'-{direction}')}", direction)
    heading = ["", "seeds", *GROUPS.values(), "BLEU", "loss/character", "cost"]
    heading += [f"passes {_language(smallest)} / {_language(largest)}"]
    heading += [f"paper, BLEU ({paper['where']})"] if paper else []
    found = {row.name: row for row in comparison.rows}
    rows = []
    for row in (found[name] for name in strategies if name in found):
        cells = _scores(comparison, row) if row is erm else _differences(comparison, row)
        runs = (row.cost.updates + row.cost.reference_updates) / erm.cost.updates + OTHER_RUNS.get(row.name, 0)
        cells.append(f"{runs:.0f}")
        cells.append(f"{row.passes[smallest]:.1f} / {row.passes[largest]:.1f}")
        if paper:
            cells.append(_paper_cell(paper, row.name))
        rows.append([row.name, str(len(row.seeds)), *cells])
    return heading, rows


def _duels() -> tuple[list[str], list[list[str]]]:
    """Rows beside others than ERM."""
    heading = ["", "", "against", "seeds", *GROUPS.values(), "BLEU", "loss/character"]
    rows = []
    for experiment, direction, name, opponent in DUELS:
        if all(runs_of(HERE / experiment, direction, each) for each in (name, opponent)):
            comparison = _comparison(HERE / experiment, direction, opponent)
            row = next(row for row in comparison.rows if row.name == name)
            seeds = min(len(row.seeds), len(comparison.reference.seeds))
            cells = _differences(comparison, row)
            rows.append([f"{experiment}, {direction}", name, opponent, str(seeds), *cells])
    return heading, rows


def _scores(comparison: Comparison, row: Row) -> list[str]:
    """Means over seeds and languages."""

    def mean(metric: str, group: str = "mean") -> float:
        found = comparison.score(row, metric, comparison.members(row, metric, group))
        assert found is not None
        return found[0]

    cells = [f"{mean('chrf', group):.1f}" for group in GROUPS]
    cells[-1] += f" {comparison.worst(row, 'chrf')}"
    return [*cells, f"{mean('bleu'):.1f}", f"{mean('loss'):.3f}"]


def _differences(comparison: Comparison, row: Row) -> list[str]:
    """To the reference."""
    of_chrf, of_bleu, of_loss = (comparison.findings(row, metric).groups for metric in ("chrf", "bleu", "loss"))
    loud = min(len(row.seeds), len(comparison.reference.seeds)) >= SEEDS
    shown = [*((of_chrf[group], 1) for group in GROUPS), (of_bleu["mean"], 1), (of_loss["mean"], 3)]
    return [_difference(each, digits, loud=loud) for each, digits in shown]


@cache  # a row stands in several tables
def _comparison(folder: Path, direction: str, reference: str) -> Comparison:
    """Of all rows there are: the more, the better is known how noisy training is."""
    names = sorted(path.name for path in (folder / "results" / direction).iterdir())
    results = [read_result(run, name, "test") for name in names for run in runs_of(folder, direction, name)]
    return compare(results, reference, "test", lambda _: None)  # doubts are on the page


def _lengths(folder: Path, direction: str) -> tuple[list[str], list[list[str]]]:
    """Validation loss a character and chrF of greedy translations on the way: the smaller and the larger half."""
    lengths = LENGTHS[folder.name]
    heading = ["", "seeds", *(f"loss at {at:,}" for at in lengths), *(f"chrF at {at:,}" for at in lengths)]
    rows = []
    for strategy in sorted(path.name for path in (folder / "results" / direction).iterdir()):
        told = [history(read_log(run.log_file)) for run in runs_of(folder, direction, strategy)]
        cells = [strategy, str(len(told))]
        for digits, halves in ((3, _losses_at), (1, _chrf_at)):
            for at in lengths:
                pairs = [both for each in told if (both := halves(each, at)) is not None]
                means = [fmean(half) for half in zip(*pairs, strict=True)]
                cells.append(" / ".join(f"{mean:.{digits}f}" for mean in means) if pairs else "–")
        rows.append(cells)
    return heading, rows


def _noise(folder: Path, direction: str) -> tuple[list[str], list[list[str]]]:
    """Of runs of chi-IBR, in the second half of their intervals: how much of what the mixture answers is noise?

    Noise is what excesses do from one interval to the next beyond a straight line: the mean square of second
    differences, which have six times the variance of one value. It is set beside the variance over languages (weighted
    by p) that the best response answers to.
    """
    heading = [
        "",
        "seeds",
        "intervals",
        "noise, smaller four",
        "larger four",
        "noise in what q answers",
        "q / p, smaller four",
        "nearest temperature",
        "off by",
    ]
    rows = []
    for strategy in sorted(path.name for path in (folder / "results" / direction).iterdir()):
        told = [history(read_log(run.log_file)) for run in runs_of(folder, direction, strategy)]
        told = [each for each in told if _answers_training_losses(each) and len(each.running_losses.steps) > 8]
        if told:
            means = np.mean([_noise_of(each) for each in told], axis=0)
            cells = [
                f"{means[0]:.0f}",
                f"{means[1]:.2f}",
                f"{means[2]:.2f}",
                f"{100 * means[3]:.0f} %",
                f"{means[4]:.2f}",
                f"{means[5]:.1f}",
                f"{100 * means[6]:.1f} %",
            ]
            rows.append([strategy, str(len(told)), *cells])
    return heading, rows


def _answers_training_losses(told: History) -> bool:
    """Around the data: other centres and validation sets, which are the same each time, have another noise."""
    balance = told.about["config"]["balance"]
    return bool(balance["strategy"] == "chi-ibr" and balance["signal"] == "train" and balance["center"] == "data")


def _noise_of(told: History) -> list[float]:
    """Intervals, noise of smaller and of larger corpora, its part in the variance, how often the smaller are shown, the
    temperature whose mixture is nearest to the mean one, and the part of the pairs in which they differ.
    """
    names = told.names
    losses = np.array([told.running_losses.values[name] for name in names], dtype=float)
    excess = losses - np.array([[told.baseline.get(name, 0.0)] for name in names])
    excess = excess[:, excess.shape[1] // 2 :]
    p = np.array([told.p[name] for name in names])
    noise = (np.diff(excess, 2) ** 2).mean(axis=1) / 6
    answered = (p[:, None] * (excess - p @ excess) ** 2).sum(axis=0).mean()
    shares = np.array([told.mixture.values[name] for name in names], dtype=float)
    half = len(names) // 2
    late = shares[:, shares.shape[1] // 2 :].mean(axis=1)
    deviation = np.sqrt(noise)
    part = (p * (1 - p) * noise).sum() / answered
    ratio = (late / p)[half:].mean()
    return [
        losses.shape[1],
        deviation[half:].mean(),
        deviation[:half].mean(),
        part,
        ratio,
        *_nearest_temperature(p, late),
    ]


def _nearest_temperature(p: Numbers, mixture: Numbers) -> tuple[float, float]:
    """And the part of the pairs that would have to be others."""
    taus = 1 / np.linspace(1, 0.01, 991)
    mixtures = p ** (1 / taus[:, None])
    mixtures /= mixtures.sum(axis=1, keepdims=True)
    off = np.abs(mixtures - mixture).sum(axis=1) / 2
    return float(taus[off.argmin()]), float(off.min())


def _bias(folder: Path, direction: str) -> tuple[list[str], list[list[str]]]:
    """By how much running means of batch means differ from means of the interval, after the first third of a run."""
    differences = []
    for run in runs_of(folder, direction, MEANS_OF_BATCHES):
        responses = [event for event in read_log(run.log_file) if event["event"] == "balance"]
        for event in responses[len(responses) // 3 :]:
            differences.append(
                {name: event["losses"][name] - event["interval_losses"][name] for name in event["target"]}
            )
    names = list(differences[0])
    columns = [np.array([each[name] for each in differences]) for name in names]
    found = [f"{_signed(column.mean(), 2)} ± {column.std(ddof=1) / len(column) ** 0.5:.2f}" for column in columns]
    return ["", *(_language(name) for name in names)], [[MEANS_OF_BATCHES, *found]]


def _losses_at(told: History, at: int) -> tuple[float, float] | None:
    return _halves(told.valid_losses_per_character.steps, told.valid_losses_per_character.values, at)


def _chrf_at(told: History, at: int) -> tuple[float, float] | None:
    return _halves(told.chrf.steps, told.chrf.values, at)


def _halves(steps: Sequence[int], values: Mapping[str, Sequence[float | None]], at: int) -> tuple[float, float] | None:
    """Means over the smaller and the larger corpora after so many updates."""
    if at not in steps:
        return None
    found = [float(each[steps.index(at)] or 0) for each in values.values()]  # the largest corpus first
    half = len(found) // 2
    return fmean(found[half:]), fmean(found[:half])


def runs_of(folder: Path, direction: str, strategy: str) -> list[Run]:
    """The finished ones."""
    return [Run(path.parent) for path in sorted((folder / "results" / direction / strategy).glob("seed-*/scores.json"))]


def _paper(table: str, direction: str) -> dict[str, Any] | None:
    """The paper's average BLEU, keyed by our names, and where it is from."""
    content = json.loads((HERE / "paper_tables.json").read_text(encoding="utf-8"))
    if table in ("related/table-c", "related/main") and direction == "en-any":
        by_setting = {row["setting"]: row["avg_bleu"] for row in content["ablation"] if row["dataset"] == "ted_related"}
        return {"where": "TED related", "erm": by_setting["ERM tau=1"]} | {
            ours: by_setting[theirs] for ours, theirs in ABLATION.items()
        }
    if table not in TABLES:
        return None
    of, dataset, where = TABLES[table]
    by_method = {
        row["method"]: row["avg_reported"]
        for row in content["rows"]
        if row["dataset"] == dataset and row["direction"] == direction and row["table"] in (of, "tab:wmt:full")
    }
    ours = {name: by_method[method] for name, method in METHODS.items() if method in by_method}
    return {"where": where, "erm": by_method["ERM_tau1"]} | ours


def _paper_cell(paper: Mapping[str, Any], name: str) -> str:
    if name == "erm":
        return f"{paper['erm']:.2f}"
    return _signed(paper[name] - paper["erm"], 2) if name in paper else "–"


def _difference(found: Difference, digits: int, *, loud: bool) -> str:
    """With its interval; bold, if a claim may rest on it, where that excludes 0."""
    low, high = found.interval
    text = f"{_signed(found.difference, digits)} [{_signed(low, digits)}, {_signed(high, digits)}]"
    return f"**{text}**" if loud and (low > 0 or high < 0) else text


def _language(direction: str) -> str:
    """The one that is not English."""
    return next(part for part in direction.split("-") if part != "en")


def _signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def _markdown(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heading = list(heading)
    lines = [heading, [":--" if place == 0 else "--:" for place in range(len(heading))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
