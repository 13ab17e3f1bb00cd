"""Sample translations: the best, median and worst sentence of each direction by the primary metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evenglot.corpus.prepared import open_prepared
from evenglot.runs.run import Run
from evenglot.runs.scores import read_translations, scored_translations, scores_file
from evenglot.scoring.metrics import METRICS, PRIMARY, Metric, TextOptions

HELD_OUT = ("test", "valid", "valid_full")  # splits that can be scored, in order of preference
MOST_SENTENCES = 400  # scored per direction, evenly spaced in the split (scoring a sentence takes about 0.2 ms)


@dataclass(frozen=True)
class Sample:
    """A sentence with its reference, translation and sentence score in the primary metric."""

    source: str
    reference: str
    translation: str
    score: float


@dataclass(frozen=True)
class Samples:
    """Samples of one direction, chosen from `looked_at` sentences."""

    best: Sample
    median: Sample
    worst: Sample
    looked_at: int

    def as_json(self) -> dict[str, Any]:
        """The form embedded in the page."""
        return asdict(self)


@dataclass(frozen=True)
class RunSamples:
    """Samples by direction, and the directions left out because their translations are missing or have changed."""

    directions: dict[str, Samples]
    left_out: tuple[str, ...] = ()


def choose(sources: Sequence[str], references: Sequence[str], translations: Sequence[str]) -> Samples | None:
    """The best, median and worst sentence; of equal scores the longest. None if all references are empty."""
    if not len(sources) == len(references) == len(translations):
        raise ValueError(
            f"{len(translations)} translations for {len(sources)} sentences and {len(references)} references; "
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
        raise ValueError(f"{metric.label}: cannot rank translations, as it is not computed from text")
    counts = metric.counter(TextOptions()).count(translations, references)
    return [float(score) for score in metric.score(counts.astype(float))]


def _spread(items: Sequence[int], most: int) -> list[int]:
    if len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


Stamp = tuple[str, int, int]


def stamp(files: Iterable[Path]) -> list[Stamp]:
    """Name, modification time and size of files, to detect changes."""
    found = []
    for file in files:
        try:
            state = file.stat()
        except OSError:
            continue
        found.append((file.name, state.st_mtime_ns, state.st_size))
    return found


def split_with_translations(run: Run) -> str | None:
    """The split translated by `evenglot score`, preferably the test set; None if there is none."""
    return next((split for split in HELD_OUT if (run.folder / "hypotheses" / split).is_dir()), None)


def samples(run: Run, split: str) -> RunSamples:
    """Samples of a run. Raises ValueError or OSError if the texts of the store or the scores cannot be read."""
    files = (scores_file(run, split), *sorted((run.folder / "hypotheses" / split).iterdir()))
    return _samples(run, split, tuple(stamp(files)))


@lru_cache(maxsize=64)  # a live page requests them repeatedly
def _samples(run: Run, split: str, seen: tuple[Stamp, ...]) -> RunSamples:
    store, scored = open_prepared(run.config(), verify=False), scored_translations(run, split)
    found, left_out = {}, []
    for name in store.directions:
        if split not in store.splits(name):
            continue
        source, target = (store.text(name, split, side) for side in ("source", "target"))
        try:
            chosen = choose(source, target, read_translations(run, split, name, scored))
        except (OSError, ValueError):
            left_out.append(name)
        else:
            if chosen:
                found[name] = chosen
    return RunSamples(found, tuple(left_out))
