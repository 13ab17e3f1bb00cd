"""Summary scores: mean over all directions, worst direction, means over the smaller and the larger corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evenglot.scoring.metrics import METRICS, PRIMARY
from evenglot.scoring.scorer import DirectionScores, scores_json


def summary(scored: Mapping[str, DirectionScores], pairs: Mapping[str, int]) -> dict[str, Any]:
    """Unweighted mean, worst direction in the primary metric, and means over the smaller and the larger corpora.

    A metric missing for some direction has no mean.
    """
    worst = min(scored, key=lambda name: METRICS[PRIMARY].sign * scored[name].scores[PRIMARY])
    larger, smaller = halves({name: pairs.get(name, 0) for name in scored})
    content: dict[str, Any] = {
        "macro": _means(scored, list(scored)),
        "worst": {"direction": worst, **scores_json(scored[worst].scores)},
    }
    if smaller:
        content["low_resource"] = {"directions": smaller[::-1], **_means(scored, smaller)}
        content["high_resource"] = {"directions": larger[::-1], **_means(scored, larger)}
    return content


def halves(pairs: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """The larger and the smaller half of the corpora, largest first; with an odd number, the middle one is omitted."""
    by_size = largest_first(pairs)
    half = len(by_size) // 2
    return by_size[:half], by_size[len(by_size) - half :]


def largest_first(pairs: Mapping[str, int]) -> list[str]:
    """Names of corpora by decreasing size; equal sizes by name."""
    return sorted(pairs, key=lambda name: (-pairs[name], name))


def _means(scored: Mapping[str, DirectionScores], names: Sequence[str]) -> dict[str, float]:
    shared = [key for key in METRICS if all(key in scored[name].scores for name in names)]
    return scores_json({key: fmean(scored[name].scores[key] for name in names) for key in shared})
