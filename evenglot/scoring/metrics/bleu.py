"""BLEU as sacreBLEU computes it."""

from __future__ import annotations

import numpy as np

from evenglot.scoring.metrics.metric import Metric, Numbers, TextCounter, TextOptions


def counter(options: TextOptions) -> TextCounter:
    """A counter for BLEU. Raises ValueError if sacreBLEU does not have the tokeniser."""
    from sacrebleu.metrics.bleu import BLEU  # imported here because comparing runs does not need it

    from evenglot.scoring.metrics.sacrebleu_counter import SacreBleuCounter

    if options.tokenize not in BLEU.TOKENIZERS:
        known = ", ".join(map(repr, BLEU.TOKENIZERS))
        raise ValueError(f"tokenize: expected one of sacreBLEU's tokenizers, {known}, got {options.tokenize!r}")
    return SacreBleuCounter(BLEU(tokenize=options.tokenize))


def bleu(counts: Numbers) -> Numbers:
    """BLEU with exponential smoothing; counts: length, reference length, matches and n-grams of orders 1 to 4."""
    length, reference, correct, total = counts[..., 0], counts[..., 1], counts[..., 2:6], counts[..., 6:10]
    none = (correct == 0) & (total > 0)
    halvings = np.cumsum(none, axis=-1) * none  # orders without a match count as 1/2, 1/4, ... matches
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(none, 0.5**halvings, correct) / total
        penalty = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        score = 100 * penalty * np.exp(np.mean(np.log(precision), axis=-1))
    possible = (correct > 0).any(axis=-1) & (total > 0).all(axis=-1) & (length > 0)
    return np.where(possible, score, 0.0)


METRIC = Metric("bleu", "BLEU", higher_is_better=True, digits=2, score=bleu, counter=counter, columns=10)
