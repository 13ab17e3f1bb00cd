"""BLEU and chrF++ of every direction against the raw references, with sacreBLEU's signatures; and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from evenglot.evaluation.languages import off_target_rate


@dataclass(frozen=True)
class Scored:
    """A direction: `chrf` is chrF++; `off_target` the share of translations in another language, if known."""

    bleu: float
    chrf: float
    lines: int
    off_target: float | None = None

    def as_json(self) -> dict[str, Any]:
        """As scores.json has it."""
        rate = {} if self.off_target is None else {"off_target": self.off_target}
        return {"bleu": self.bleu, "chrf": self.chrf, "lines": self.lines, **rate}


class Scorer:
    """One of sacreBLEU's metrics each, so that the signature is that of what was computed."""

    def __init__(self, tokenize: str = "13a") -> None:
        self._bleu, self._chrf = BLEU(tokenize=tokenize), CHRF(word_order=2)

    def score(self, hypotheses: Sequence[str], references: Sequence[str], language: str | None = None) -> Scored:
        """Score one direction; with a target `language`, look for translations in other languages as well."""
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} translations, but {len(references)} references")
        if not references:
            raise ValueError("there are no references to score against")
        return Scored(
            bleu=self._bleu.corpus_score(hypotheses, [references]).score,
            chrf=self._chrf.corpus_score(hypotheses, [references]).score,
            lines=len(references),
            off_target=None if language is None else off_target_rate(hypotheses, language),
        )

    @property
    def signature(self) -> dict[str, str]:
        """How the numbers were made, in sacreBLEU's words; known after the first score."""
        return {"bleu": str(self._bleu.get_signature()), "chrf": str(self._chrf.get_signature())}


def summary(scored: Mapping[str, Scored], pairs: Mapping[str, int]) -> dict[str, Any]:
    """Unweighted mean, the worst direction by chrF++, and the means of the smaller and of the larger corpora."""
    worst = min(scored, key=lambda name: scored[name].chrf)
    by_size = sorted(scored, key=lambda name: (pairs.get(name, 0), name))
    half = len(by_size) // 2
    content: dict[str, Any] = {
        "macro": _means(scored, by_size),
        "worst": {"direction": worst, "bleu": scored[worst].bleu, "chrf": scored[worst].chrf},
    }
    if half:
        content["low_resource"] = {"directions": by_size[:half], **_means(scored, by_size[:half])}
        content["high_resource"] = {"directions": by_size[-half:], **_means(scored, by_size[-half:])}
    return content


def _means(scored: Mapping[str, Scored], names: Sequence[str]) -> dict[str, float]:
    return {key: fmean(getattr(scored[name], key) for name in names) for key in ("bleu", "chrf")}
