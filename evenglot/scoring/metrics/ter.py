"""Translation edit rate (TER) as sacreBLEU computes it."""

from __future__ import annotations

import numpy as np

from evenglot.scoring.metrics.metric import Metric, Numbers, TextCounter, TextOptions


def counter(options: TextOptions) -> TextCounter:
    """A counter for TER with sacreBLEU's defaults; it has no options."""
    from sacrebleu.metrics.ter import TER

    from evenglot.scoring.metrics.sacrebleu_counter import SacreBleuCounter

    return SacreBleuCounter(TER())


def ter(counts: Numbers) -> Numbers:
    """Edits per 100 reference words; counts: edits, reference words."""
    edits, words = counts[..., 0], counts[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(words > 0, edits / words, edits > 0)  # 100 % for an empty reference
    return np.asarray(100 * rate, dtype=np.float64)


METRIC = Metric("ter", "TER", higher_is_better=False, digits=2, score=ter, counter=counter, columns=2)
