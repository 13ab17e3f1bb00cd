"""Score the translations of one direction in every metric of the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenglot.scoring.metrics import METRICS, Counts, TextOptions
from evenglot.scoring.off_target import off_target_rate


@dataclass(frozen=True)
class DirectionScores:
    """Scores and sentence counts by metric; `off_target` is the share of translations in another language.

    Language identification is unreliable on short sentences; `off_target_references` is its error rate on the
    references. Both are None if unknown.
    """

    scores: Mapping[str, float]
    lines: int
    off_target: float | None = None
    off_target_references: float | None = None
    counts: Mapping[str, Counts] = field(default_factory=dict, compare=False, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The form used in scores.json."""
        rates = {name: getattr(self, name) for name in ("off_target", "off_target_references")}
        known = {name: rate for name, rate in rates.items() if rate is not None}
        return {**scores_json(self.scores), "lines": self.lines, **known}


def scores_json(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores by metric under the keys of scores.json."""
    return {METRICS[key].scores_key: score for key, score in scores.items()}


class Scorer:
    """Scores directions with one counter per text metric; the counters also provide the signatures."""

    def __init__(self, tokenize: str = "13a") -> None:
        options = TextOptions(tokenize)
        self._counters = {key: metric.counter(options) for key, metric in METRICS.items() if metric.counter is not None}

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        language: str | None = None,
        model_counts: Mapping[str, Counts] | None = None,
    ) -> DirectionScores:
        """Score one direction; with a target `language`, also compute off-target rates.

        `model_counts`: counts of metrics computed from the model instead of the text.
        """
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} translations, but {len(references)} references")
        if not references:
            raise ValueError("no references")
        found = {key: counter.count(hypotheses, references) for key, counter in self._counters.items()}
        found |= model_counts or {}
        counts = {key: found[key] for key in METRICS if key in found}
        return DirectionScores(
            scores={key: METRICS[key].total(values) for key, values in counts.items()},
            lines=len(references),
            off_target=None if language is None else off_target_rate(hypotheses, language),
            off_target_references=None if language is None else off_target_rate(references, language),
            counts=counts,
        )

    @property
    def signature(self) -> dict[str, str]:
        """sacreBLEU's signature of each metric; available after the first score."""
        return {key: counter.signature for key, counter in self._counters.items()}
