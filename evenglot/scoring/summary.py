"""Averages over directions: all of them, the worst one, the smaller and the larger corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evenglot.scoring.metrics import METRICS, PRIMARY
from evenglot.scoring.scorer import DirectionScores, scores_json


def summary(scored: Mapping[str, DirectionScores], pairs: Mapping[str, int]) -> dict[str, Any]:
    """Unweighted mean, the worst direction in the primary metric, and means of the smaller and of the larger corpora.

    A metric that some direction lacks has no mean.
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
    """The larger and the smaller half of the corpora, largest first; the middle one of an odd number is in neither."""
    by_size = largest_first(pairs)
    half = len(by_size) // 2
    return by_size[:half], by_size[len(by_size) - half :]


def largest_first(pairs: Mapping[str, int]) -> list[str]:
    """Names of corpora by their sizes; those of equal size by name."""
    return sorted(pairs, key=lambda name: (-pairs[name], name))


def _means(scored: Mapping[str, DirectionScores], names: Sequence[str]) -> dict[str, float]:
    shared = [key for key in METRICS if all(key in scored[name].scores for name in names)]
    return scores_json({key: fmean(scored[name].scores[key] for name in names) for key in shared})
