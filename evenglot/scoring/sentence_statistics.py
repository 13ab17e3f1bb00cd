"""What each sentence adds to a score: counts, from which the score of any sample of sentences follows.

They hold no text, so they can be kept and shared where the test set cannot. BLEU and chrF++ are sacreBLEU's, exactly.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from evenglot.files import digest, finished_file

Numbers = NDArray[np.float64]
Counts = NDArray[np.generic]  # (sentences, counts)

BETA = 2.0  # chrF weighs recall so many times as much as precision
DAMAGED = (OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, BadZipFile, zlib.error)  # in an archive


@dataclass(frozen=True)
class Metric:
    """How to call a score, how to read it, and how it follows from summed counts (..., counts) -> (...)."""

    label: str
    higher_is_better: bool
    digits: int
    score: Callable[[Numbers], Numbers]


def bleu(counts: Numbers) -> Numbers:
    """BLEU with exponential smoothing; counts: length, reference length, 4 numbers of matches, 4 numbers of n-grams."""
    length, reference, correct, total = counts[..., 0], counts[..., 1], counts[..., 2:6], counts[..., 6:10]
    none = (correct == 0) & (total > 0)
    halvings = np.cumsum(none, axis=-1) * none  # the first order without a match counts as 1/2 of one, the next 1/4
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(none, 0.5**halvings, correct) / total
        penalty = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        score = 100 * penalty * np.exp(np.mean(np.log(precision), axis=-1))
    possible = (correct > 0).any(axis=-1) & (total > 0).all(axis=-1) & (length > 0)
    return np.where(possible, score, 0.0)


def chrf(counts: Numbers) -> Numbers:
    """chrF++ from (n-grams of the translation, of the reference, matches) of each of 6 character and 2 word orders."""
    said, wanted, matches = (counts[..., first::3] for first in range(3))
    in_both = (said > 0) & (wanted > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        orders = in_both.sum(axis=-1)
        precision = np.where(in_both, matches / said, 0.0).sum(axis=-1) / orders
        recall = np.where(in_both, matches / wanted, 0.0).sum(axis=-1) / orders
        score = 100 * (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)
    return np.where((orders > 0) & (precision + recall > 0), score, 0.0)


def loss(counts: Numbers) -> Numbers:
    """Nats a character; counts: -log p of the reference, its characters."""
    return counts[..., 0] / counts[..., 1]


METRICS = {
    "bleu": Metric("BLEU", True, 2, bleu),
    "chrf": Metric("chrF++", True, 2, chrf),
    "loss": Metric("loss per character", False, 3, loss),
}


def references_digest(references: Sequence[str]) -> str:
    """Names a test set: two systems can be compared sentence by sentence if they were scored on the same."""
    return digest("\n".join(references).encode())


@dataclass(frozen=True, eq=False)
class SentenceStatistics:
    """Counts by direction and metric, and the digest of each direction's references."""

    counts: Mapping[str, Mapping[str, Counts]]
    references: Mapping[str, str]

    def save(self, file: Path) -> None:
        """Write a NumPy archive, complete or not at all."""
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, by_metric in self.counts.items():
            arrays[f"{name}/references"] = np.array(self.references[name])
            arrays |= {f"{name}/{metric}": _compact(values) for metric, values in by_metric.items()}
        with finished_file(file) as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)

    @staticmethod
    def load(file: Path) -> SentenceStatistics:
        """Read what `save` wrote; ValueError if it is something else."""
        counts: dict[str, dict[str, Counts]] = {}
        references: dict[str, str] = {}
        try:
            with file.open("rb") as content:  # np.load would leave it open if it is no archive
                archive = np.load(content, allow_pickle=False)
                for key in archive.files:
                    name, _, what = key.partition("/")
                    if what == "references":
                        references[name] = str(archive[key])
                    elif what in METRICS:
                        counts.setdefault(name, {})[what] = archive[key]
            if not counts or counts.keys() != references.keys():
                raise ValueError("not the counts of scored directions")
        except (*DAMAGED, AttributeError) as error:  # a single array has no `files`
            raise ValueError(f"{file}: cannot be read; run `evenglot score` again") from error
        return SentenceStatistics(counts, references)


def _compact(values: Counts) -> Counts:
    """The smallest type that holds whole numbers; other numbers in single precision."""
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(np.min_scalar_type(int(values.max(initial=0))))
    return values.astype(np.float32)
