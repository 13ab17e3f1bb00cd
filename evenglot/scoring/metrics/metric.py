"""What a metric is: counts of each sentence, and how a score follows from their sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Counts = NDArray[np.generic]  # (sentences, counts)


@dataclass(frozen=True)
class TextOptions:
    """Options of metrics that are computed from text."""

    tokenize: str = "13a"  # of BLEU


class TextCounter(Protocol):
    """Counts sentences of one metric."""

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        """The counts of each sentence, (sentences, counts)."""

    @property
    def signature(self) -> str:
        """How the counts were made (tokeniser, version, ...); read after the first `count`."""


@dataclass(frozen=True)
class Metric:
    """One metric; `METRICS` in this package lists them all.

    A score is a function of summed counts, (..., counts) -> (...), so the score of any sample of sentences follows
    without text: that is what the bootstrap of `evenglot compare` needs.
    """

    key: str  # in statistics.npz, scores.json and comparison.json
    label: str
    higher_is_better: bool
    digits: int
    score: Callable[[Numbers], Numbers]
    counter: Callable[[TextOptions], TextCounter] | None = None  # None: the model counts, not the text
    alias: str | None = None  # the key in scores.json, if it is another
    short: str | None = None  # the heading of a narrow column, if the label is too long

    @property
    def from_text(self) -> bool:
        """Computed from translations and references, without the model."""
        return self.counter is not None

    @property
    def scores_key(self) -> str:
        """The key in scores.json."""
        return self.alias or self.key

    @property
    def heading(self) -> str:
        """Of a narrow column."""
        return self.short or self.label

    @property
    def sign(self) -> int:
        """`sign * difference > 0`: better."""
        return 1 if self.higher_is_better else -1

    def total(self, counts: Counts) -> float:
        """The score of all sentences."""
        return float(self.score(counts.sum(axis=0, dtype=float)))

    def text(self, score: float, *, fewer: int = 0) -> str:
        """A score as tables print it, with `fewer` digits where there is little room."""
        return f"{score:.{self.digits - fewer}f}"

    def as_json(self) -> dict[str, str | bool | int]:
        """How to print and read it, for files and pages."""
        return {
            "label": self.label,
            "higher_is_better": self.higher_is_better,
            "digits": self.digits,
            "from_text": self.from_text,
        }
