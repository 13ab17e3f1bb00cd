"""Translation edit rate (TER) as sacreBLEU computes it."""

from __future__ import annotations

import numpy as np

from evenglot.scoring.metrics.metric import Metric, Numbers, TextCounter, TextOptions


def counter(options: TextOptions) -> TextCounter:
    """It has no options: sacreBLEU's defaults."""
    from sacrebleu.metrics.ter import TER

    from evenglot.scoring.metrics.sacrebleu_counter import SacreBleuCounter

    return SacreBleuCounter(TER())


def ter(counts: Numbers) -> Numbers:
    """Edits for 100 words of the reference; counts: edits, words of the reference."""
    edits, words = counts[..., 0], counts[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(words > 0, edits / words, edits > 0)  # edits of an empty reference: 100 %
    return np.asarray(100 * rate, dtype=np.float64)


METRIC = Metric("ter", "TER", higher_is_better=False, digits=2, score=ter, counter=counter)
