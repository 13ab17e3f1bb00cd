"""Significance of score differences: a paired bootstrap over test sentences, with seed variance added.

Each sample draws test sentences with replacement, the same ones for all systems and seeds, because these share the test
set. With one seed this is the usual paired bootstrap (Koehn 2004; identical to sacreBLEU's, sample by sample), which
does not cover the variance between training runs.

With several seeds, the standard error due to training (`Contrast.standard_error`), times a draw from Student's t, is
added to each sample. Runs are not resampled like sentences, since a bootstrap over three runs underestimates their
variance. So without seed variance this is the bootstrap, and without test-set variance it is a t-test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np

from evenglot.comparison.seed_variance import Contrast
from evenglot.scoring.metrics import Counts, Metric, Numbers

SEED = 12345  # as in sacreBLEU
ALPHA = 0.05
ERRORS, DRAWS_PER_QUANTILE = 5, 100
BLOCK = 1 << 18  # drawn sentences at a time: a few MB, which stay in the cache until they are scored


@dataclass(frozen=True)
class Difference:
    """A difference of two scores, its 95 % confidence interval and its two-sided p-value."""

    difference: float
    interval: tuple[float, float]
    p: float


def samples_for(directions: int) -> int:
    """Number of samples: 1000, or more if Holm's smallest level, .05 / directions, needs them."""
    return max(1000, 40 * directions)


def drawn_sentences(sentences: int, samples: int, seed: int | Sequence[int] | np.random.Generator = SEED) -> Numbers:
    """Number of times each sentence is drawn in each sample, (samples, sentences)."""
    rows = np.random.default_rng(seed).choice(sentences, size=(samples, sentences), replace=True)
    rows += sentences * np.arange(samples)[:, None]
    return np.bincount(rows.ravel(), minlength=samples * sentences).reshape(samples, sentences).astype(np.float64)


@cache
def drawn_errors(freedom: int, samples: int) -> Numbers:
    """Training errors in units of the standard error: Student's t with `freedom` degrees of freedom; zeros for 0.

    (errors, samples): several per sample, symmetric around 0. They are quantiles of the distribution in random order,
    because the tails of a thousand independent draws would be too noisy.
    """
    if freedom == 0:
        return np.zeros((1, samples))
    random = np.random.default_rng([SEED, freedom])
    draws = random.standard_t(freedom, (ERRORS * samples, DRAWS_PER_QUANTILE))
    quantiles = np.sort(draws, axis=None)[DRAWS_PER_QUANTILE // 2 :: DRAWS_PER_QUANTILE]
    shuffled = random.permutation((quantiles - quantiles[::-1]) / 2).reshape(ERRORS, samples)
    return np.concatenate([shuffled, -shuffled])


def sentences_of(references: str, sentences: int, samples: int) -> Iterator[Numbers]:
    """The samples of a test set, in blocks of rows.

    They are seeded by the digest of its references so that different sets are independent.
    """
    random = np.random.default_rng([SEED, crc32(references.encode())])
    rows = max(1, BLOCK // sentences)
    for first in range(0, samples, rows):
        yield drawn_sentences(sentences, min(rows, samples - first), random)


def sampled_scores(metric: Metric, counts: Counts, sentences: Numbers) -> Numbers:
    """The score of a run in each sample; with counts (sentences, runs, counts) that of each run, (samples, runs)."""
    return metric.score(np.tensordot(sentences, counts.astype(np.float64), axes=1))


def difference(between: Contrast, observed: Numbers, sampled: Numbers) -> Difference:
    """Difference of two rows, from the observed scores (runs,) and the resampled scores (samples, runs)."""
    noise = between.standard_error(observed) * drawn_errors(between.freedom, len(sampled))
    return judged(float(between.difference(observed)), (between.difference(sampled) + noise).ravel())


def judged(observed: float, sampled: Numbers) -> Difference:
    """The p-value and confidence interval of an observed difference, from the differences in the samples.

    p is the fraction of samples at least as far from their median as the observed difference is from 0. The interval is
    as wide as the one around the median that contains 95 % of the samples, so it excludes 0 exactly where p < .05.
    """
    sampled = sampled[np.isfinite(sampled)]  # the loss is undefined if all drawn sentences are too long for the model
    if len(sampled) == 0 or np.ptp(sampled) == 0:  # e.g. identical systems: no evidence of a difference
        return Difference(observed, (min(observed, 0.0), max(observed, 0.0)), 1.0)
    off = np.abs(sampled - np.median(sampled))
    extreme = int(np.count_nonzero(off >= abs(observed)))
    rank = min(len(off) - 1, len(off) + 1 - math.ceil(ALPHA * (len(off) + 1)))
    half_width = float(np.partition(off, rank)[rank])
    return Difference(observed, (observed - half_width, observed + half_width), (extreme + 1) / (len(off) + 1))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values after Holm's correction, which bounds the probability of any false positive among them."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p, key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p}
