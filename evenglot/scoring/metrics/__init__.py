"""The metrics, one file each.

To add one, write a module that defines `METRIC` and list it here. It then appears in `evenglot score`, scores.json,
statistics.npz, `evenglot compare` and the report.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from evenglot.scoring.metrics import bleu, chrf, loss, ter
from evenglot.scoring.metrics.metric import Counts, Metric, Numbers, TextCounter, TextOptions

__all__ = ["METRICS", "PRIMARY", "Counts", "Metric", "Numbers", "TextCounter", "TextOptions", "primary_of", "scored_by"]

METRICS: dict[str, Metric] = {each.METRIC.key: each.METRIC for each in (bleu, chrf, ter, loss)}  # in table order
PRIMARY = chrf.METRIC.key  # used for the worst direction, the sample translations and the verdicts


def primary_of(available: Container[str]) -> str | None:
    """The primary metric if available, else the first available one."""
    return next((key for key in (PRIMARY, *METRICS) if key in available), None)


def scored_by(scores: Mapping[str, Any]) -> list[Metric]:
    """Metrics of one entry of scores.json; older files lack newer metrics."""
    return [metric for metric in METRICS.values() if scores.get(metric.scores_key) is not None]
