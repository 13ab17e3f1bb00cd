"""Tables of `evenglot score`."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from rich.table import Table

from evenglot.scoring.metrics import METRICS, PRIMARY, Metric
from evenglot.tables import table

MEANS = {"macro": "mean", "low_resource": "smaller half", "high_resource": "larger half"}
OTHER = {"off_target": ("off-target %", 100, 1), "comet": ("COMET", 1, 4)}  # heading, factor, digits


def score_table(scores: Mapping[str, Any], pairs: Mapping[str, int]) -> Table:
    """One row per direction, largest corpus first, followed by the means."""
    directions = scores["directions"]
    metrics = [each for each in METRICS.values() if any(each.scores_key in row for row in directions.values())]
    other = [key for key in OTHER if any(row.get(key) is not None for row in directions.values())]
    rows = {}
    for name in sorted(directions, key=lambda name: -pairs.get(name, 0)):
        row = directions[name]
        sizes = [f"{pairs.get(name, 0):,}", f"{row['lines']:,}"]
        rows[name] = [*sizes, *(_score(row, each) for each in metrics), *(_other(row, key) for key in other)]
    for key, label in MEANS.items():
        if key in scores:
            rows[label] = ["", "", *(_score(scores[key], each) for each in metrics), *("" for _ in other)]
    headings = ["pairs", "lines", *(each.heading for each in metrics), *(OTHER[key][0] for key in other)]
    return table(f"Scores ({scores['split']})", rows, headings)


def _score(row: Mapping[str, Any], metric: Metric) -> str:
    return "-" if row.get(metric.scores_key) is None else metric.text(row[metric.scores_key])


def _other(row: Mapping[str, Any], key: str) -> str:
    _, factor, digits = OTHER[key]
    return "-" if row.get(key) is None else f"{factor * row[key]:.{digits}f}"


def score_summary(scores: Mapping[str, Any]) -> str:
    """The worst direction, what the last columns mean, and the signature of each metric."""
    worst, signature, primary = scores["worst"], scores["signature"], METRICS[PRIMARY]
    lines = [f"Worst direction: {worst['direction']}, {primary.label} {primary.text(worst[primary.scores_key])}."]
    usual = [row.get("off_target_references") for row in scores["directions"].values()]
    if known := [share for share in usual if share is not None]:
        lines.append(
            "off-target: translations identified as another language; "
            f"of the references, {100 * fmean(known):.0f} % on average."
        )
    return "\n".join([*lines, *(f"{METRICS[key].label} {text}" for key, text in signature.items())])
