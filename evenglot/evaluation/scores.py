"""BLEU and chrF++ of every direction against the raw references, with sacreBLEU's signatures; and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from evenglot.evaluation.languages import off_target_rate
from evenglot.evaluation.statistics import METRICS, Counts


@dataclass(frozen=True)
class Scored:
    """A direction: `chrf` is chrF++; `off_target` the share of translations in another language, if known.

    Of short sentences the guess is often wrong; `off_target_references` is the share of references that it gets wrong.
    `counts` are those of the sentences, by metric.
    """

    bleu: float
    chrf: float
    lines: int
    off_target: float | None = None
    off_target_references: float | None = None
    counts: Mapping[str, Counts] = field(default_factory=dict, compare=False, repr=False)

    def as_json(self) -> dict[str, Any]:
        """As scores.json has it."""
        rates = {name: getattr(self, name) for name in ("off_target", "off_target_references")}
        known = {name: rate for name, rate in rates.items() if rate is not None}
        return {"bleu": self.bleu, "chrf": self.chrf, "lines": self.lines, **known}


class Scorer:
    """One of sacreBLEU's metrics each, so that the signature is that of what was computed."""

    def __init__(self, tokenize: str = "13a") -> None:
        if tokenize not in BLEU.TOKENIZERS:
            known = ", ".join(map(repr, BLEU.TOKENIZERS))
            raise ValueError(f"tokenize: expected one of sacreBLEU's, {known}, got {tokenize!r}")
        self._bleu, self._chrf = BLEU(tokenize=tokenize), CHRF(word_order=2)

    def score(self, hypotheses: Sequence[str], references: Sequence[str], language: str | None = None) -> Scored:
        """Score one direction; with a target `language`, look for translations in other languages as well."""
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} translations, but {len(references)} references")
        if not references:
            raise ValueError("there are no references to score against")
        counts: dict[str, Counts] = {
            name: np.array(metric._extract_corpus_statistics(hypotheses, [references]))  # as its significance tests do
            for name, metric in {"bleu": self._bleu, "chrf": self._chrf}.items()
        }
        totals = {name: float(METRICS[name].score(values.sum(axis=0, dtype=float))) for name, values in counts.items()}
        return Scored(
            **totals,
            lines=len(references),
            off_target=None if language is None else off_target_rate(hypotheses, language),
            off_target_references=None if language is None else off_target_rate(references, language),
            counts=counts,
        )

    @property
    def signature(self) -> dict[str, str]:
        """How the numbers were made, in sacreBLEU's words; known after the first score."""
        return {"bleu": str(self._bleu.get_signature()), "chrf": str(self._chrf.get_signature())}


def summary(scored: Mapping[str, Scored], pairs: Mapping[str, int]) -> dict[str, Any]:
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


def _means(scored: Mapping[str, Scored], names: Sequence[str]) -> dict[str, float]:
    return {key: fmean(getattr(scored[name], key) for name in names) for key in ("bleu", "chrf")}
