"""Counts per sentence from sacreBLEU's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.base import Metric as SacreBleuMetric

from evenglot.scoring.metrics.metric import Counts


@dataclass(frozen=True)
class SacreBleuCounter:
    """The sentence statistics that sacreBLEU's own significance tests resample, and its signature."""

    metric: SacreBleuMetric

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        """One row per sentence; integers, since there is one reference."""
        return np.array(self.metric._extract_corpus_statistics(hypotheses, [references])).astype(np.int64)

    @property
    def signature(self) -> str:
        """sacreBLEU's signature; available after the first `count`, as it includes the number of references."""
        return str(self.metric.get_signature())
