"""What the scores of all directions come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evenglot.scoring.scorer import DirectionScores


def summary(scored: Mapping[str, DirectionScores], pairs: Mapping[str, int]) -> dict[str, Any]:
    """Unweighted mean, the worst direction by chrF++, and the means of the smaller and of the larger corpora."""
    worst = min(scored, key=lambda name: scored[name].chrf)
    larger, smaller = halves({name: pairs.get(name, 0) for name in scored})
    content: dict[str, Any] = {
        "macro": _means(scored, list(scored)),
        "worst": {"direction": worst, "bleu": scored[worst].bleu, "chrf": scored[worst].chrf},
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
    return {key: fmean(getattr(scored[name], key) for name in names) for key in ("bleu", "chrf")}
