"""Translations worth a look: of each direction the best, the median and the worst, by the primary metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from evenglot.corpus.prepared import open_prepared
from evenglot.runs.run import Run
from evenglot.runs.scores import read_translations, translations_file
from evenglot.scoring.metrics import METRICS, PRIMARY, Metric, TextOptions

HELD_OUT = ("test", "valid", "valid_full")  # what can be scored, in the order of interest
MOST_SENTENCES = 400  # of a direction are looked at, spread over its set: a sentence takes about 0.2 ms


@dataclass(frozen=True)
class Sample:
    """A sentence, its reference, its translation, and the score of the sentence in the primary metric."""

    source: str
    reference: str
    translation: str
    score: float


@dataclass(frozen=True)
class Samples:
    """Of one direction, chosen among `looked_at` sentences."""

    best: Sample
    median: Sample
    worst: Sample
    looked_at: int

    def as_json(self) -> dict[str, Any]:
        """As the page has it."""
        return asdict(self)


def choose(sources: Sequence[str], references: Sequence[str], translations: Sequence[str]) -> Samples | None:
    """The best, the median and the worst; None if there is nothing to choose from. Of equals the longest says most."""
    if not len(sources) == len(references) == len(translations):
        raise ValueError(
            f"{len(translations)} translations of {len(sources)} sentences with {len(references)} references; "
            "run `evenglot score` again"
        )
    filled = [index for index, reference in enumerate(references) if reference.strip()]
    if not filled:
        return None
    metric = METRICS[PRIMARY]
    chosen = _spread(filled, MOST_SENTENCES)
    scores = _sentence_scores(metric, [translations[i] for i in chosen], [references[i] for i in chosen])
    scored = [
        Sample(sources[i], references[i], translations[i], score) for i, score in zip(chosen, scores, strict=True)
    ]
    scored.sort(key=lambda sample: (metric.sign * sample.score, -len(sample.reference)))
    best = max(scored, key=lambda sample: (metric.sign * sample.score, len(sample.reference)))
    return Samples(best=best, median=scored[len(scored) // 2], worst=scored[0], looked_at=len(scored))


def _sentence_scores(metric: Metric, translations: Sequence[str], references: Sequence[str]) -> list[float]:
    if metric.counter is None:
        raise ValueError(f"{metric.label}: not computed from text, so it cannot rank translations")
    counts = metric.counter(TextOptions()).count(translations, references)
    return [float(score) for score in metric.score(counts.astype(float))]


def _spread(items: Sequence[int], most: int) -> list[int]:
    if len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


def split_with_translations(run: Run) -> str | None:
    """A split that `evenglot score` translated, the test set before others; None if there is none."""
    return next((split for split in HELD_OUT if (run.folder / "hypotheses" / split).is_dir()), None)


def samples(run: Run, split: str) -> dict[str, Samples]:
    """Of every direction that was translated, by name; ValueError or OSError if texts or translations are gone."""
    return _samples(run, split, (run.folder / "hypotheses" / split).stat().st_mtime_ns)


@lru_cache(maxsize=64)  # a page that is refreshed asks again and again
def _samples(run: Run, split: str, changed: int) -> dict[str, Samples]:
    store = open_prepared(run.config(), verify=False)
    found = {}
    for name in store.directions:
        if split in store.splits(name) and translations_file(run, split, name).exists():
            source, target = (store.text(name, split, side) for side in ("source", "target"))
            if chosen := choose(source, target, read_translations(run, split, name)):
                found[name] = chosen
    return found
