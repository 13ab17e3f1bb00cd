"""Definition of a metric: counts per sentence, and a score computed from their sums."""

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
    """Options of metrics computed from text."""

    tokenize: str = "13a"  # sacreBLEU tokeniser for BLEU


class TextCounter(Protocol):
    """Computes the counts of one metric."""

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        """The counts of each sentence, (sentences, counts)."""

    @property
    def signature(self) -> str:
        """How the counts were computed (tokeniser, version, ...); available after the first `count`."""


@dataclass(frozen=True)
class Metric:
    """A metric; `METRICS` lists all of them.

    A score is a function of summed counts, (..., counts) -> (...). So the bootstrap of `evenglot compare` can score any
    sample of sentences without their text.
    """

    key: str  # in statistics.npz, scores.json and comparison.json
    label: str
    higher_is_better: bool
    digits: int
    score: Callable[[Numbers], Numbers]
    counter: Callable[[TextOptions], TextCounter] | None = None  # None: computed from the model, not from text
    alias: str | None = None  # key in scores.json if different
    short: str | None = None  # heading of a narrow column if the label is too long
    columns: int | None = None  # number of counts of a sentence; None: not checked when they are read

    @property
    def from_text(self) -> bool:
        """Whether it is computed from translations and references, without the model."""
        return self.counter is not None

    @property
    def scores_key(self) -> str:
        """The key in scores.json."""
        return self.alias or self.key

    @property
    def heading(self) -> str:
        """Heading of a narrow column."""
        return self.short or self.label

    @property
    def sign(self) -> int:
        """1 if higher is better, else -1: `sign * difference > 0` means better."""
        return 1 if self.higher_is_better else -1

    def total(self, counts: Counts) -> float:
        """Score of all sentences together."""
        return float(self.score(counts.sum(axis=0, dtype=float)))

    def text(self, score: float, *, fewer: int = 0) -> str:
        """A score formatted for tables, with `fewer` digits in narrow places."""
        return f"{score:.{self.digits - fewer}f}"

    def as_json(self) -> dict[str, str | bool | int]:
        """Properties needed to format and interpret scores, as used in files and reports."""
        return {
            "label": self.label,
            "higher_is_better": self.higher_is_better,
            "digits": self.digits,
            "from_text": self.from_text,
        }
