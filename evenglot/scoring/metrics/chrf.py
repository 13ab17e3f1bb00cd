"""chrF++ (chrF with word 1-grams and 2-grams) as sacreBLEU computes it."""

from __future__ import annotations

import numpy as np

from evenglot.scoring.metrics.metric import Metric, Numbers, TextCounter, TextOptions

BETA = 2.0  # weight of recall relative to precision
WORD_ORDER = 2


def counter(options: TextOptions) -> TextCounter:
    """A counter for chrF++, which has no options."""
    from sacrebleu.metrics.chrf import CHRF

    from evenglot.scoring.metrics.sacrebleu_counter import SacreBleuCounter

    return SacreBleuCounter(CHRF(word_order=WORD_ORDER))


def chrf(counts: Numbers) -> Numbers:
    """chrF++; counts: n-grams of translation, of reference, and matches, for 6 character and 2 word orders."""
    said, wanted, matches = (counts[..., first::3] for first in range(3))
    in_both = (said > 0) & (wanted > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        orders = in_both.sum(axis=-1)
        precision = np.where(in_both, matches / said, 0.0).sum(axis=-1) / orders
        recall = np.where(in_both, matches / wanted, 0.0).sum(axis=-1) / orders
        score = 100 * (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)
    return np.where((orders > 0) & (precision + recall > 0), score, 0.0)


METRIC = Metric("chrf", "chrF++", higher_is_better=True, digits=2, score=chrf, counter=counter, columns=24)
