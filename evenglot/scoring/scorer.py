"""BLEU and chrF++ of every direction against the raw references, with sacreBLEU's signatures; and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from evenglot.scoring.off_target import off_target_rate
from evenglot.scoring.sentence_statistics import METRICS, Counts


@dataclass(frozen=True)
class DirectionScores:
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

    def score(
        self, hypotheses: Sequence[str], references: Sequence[str], language: str | None = None
    ) -> DirectionScores:
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
        return DirectionScores(
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
