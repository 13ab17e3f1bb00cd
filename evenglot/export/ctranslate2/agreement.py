"""Verify an exported model: translate the same sentences with torch and CTranslate2, and compare."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from evenglot.inference.ctranslate2.engine import BATCH, CTranslate2Engine
from evenglot.model.search import Hypothesis, beam_search, force
from evenglot.model.transformer import Transformer
from evenglot.symbols import PAD

TOLERANCE = 1e-4  # largest difference of scores between the engines, in float32
BEAM, LENGTH_PENALTY, MAX_LENGTH = 5, 1.0, 200  # also in translate.py


@dataclass(frozen=True)
class Report:
    """Agreement of CTranslate2 and torch on a sample of sentences."""

    compared: int = 0  # number of sentences; 0 if there was no text
    identical: int = 0
    ties: int = 0  # different translations with the same score according to torch
    largest_score_difference: float = 0.0  # of identical translations

    @property
    def different(self) -> int:
        """The number of translations that are neither identical nor ties."""
        return self.compared - self.identical - self.ties

    def __str__(self) -> str:
        if not self.compared:
            return "not compared with torch: no store with validation text, and no sentences given"
        ties = f"{self.ties} ties, " if self.ties else ""
        return (
            f"{self.compared} sentences translated with torch and CTranslate2: {self.identical} identical, {ties}"
            f"{self.different} different; scores of identical translations within {self.largest_score_difference:.1g}"
        )


def compare(model: Transformer, engine: CTranslate2Engine, sources: list[list[int]]) -> Report:
    """Translate source sentences (ids, with tag and </s>) with both engines and compare."""
    ours = list(chain.from_iterable(_with_torch(model, sources[i : i + BATCH]) for i in range(0, len(sources), BATCH)))
    limits = [MAX_LENGTH] * len(sources)
    theirs = engine.translate(sources, beam=BEAM, length_penalty=LENGTH_PENALTY, max_length=limits, n_best=1)
    pairs = [(source, mine, other[0]) for source, mine, other in zip(sources, ours, theirs, strict=True)]
    identical = [(mine, other) for _, mine, other in pairs if mine.pieces == other.pieces]
    ties = sum(_is_tie(model, *pair) for pair in pairs if pair[1].pieces != pair[2].pieces)
    differences = [abs(mine.score - other.score) for mine, other in identical]
    return Report(len(sources), len(identical), ties, max(differences, default=0.0))


def _with_torch(model: Transformer, sources: list[list[int]]) -> list[Hypothesis]:
    lengths = torch.tensor([len(source) for source in sources])
    padded = pad_sequence([torch.tensor(source) for source in sources], batch_first=True, padding_value=PAD)
    found = beam_search(
        model, padded, lengths, beam=BEAM, length_penalty=LENGTH_PENALTY, max_length=MAX_LENGTH, patience=1
    )
    return [best for best, *_ in found]


def _is_tie(model: Transformer, source: list[int], mine: Hypothesis, other: Hypothesis) -> bool:
    """Does torch score the other translation the same as its own?"""
    if not other.ended:
        return False
    (log_p,) = force(model, torch.tensor([source]), torch.tensor([len(source)]), [other.pieces])
    score: float = log_p / (len(other.pieces) + 1) ** LENGTH_PENALTY
    return abs(score - mine.score) <= TOLERANCE


def refuse_disagreement(report: Report, folder: Path) -> None:
    """Raise ValueError if over 1 % of translations or any score differs; rounding can change close decisions."""
    if 100 * report.different > report.compared or report.largest_score_difference > TOLERANCE:
        raise ValueError(f"{folder}: not written, because CTranslate2 and torch disagree: {report}")
