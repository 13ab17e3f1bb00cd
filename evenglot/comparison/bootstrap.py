"""Is a difference more than chance? A paired bootstrap over test sentences, with the noise of training added.

A sample draws sentences with replacement. The drawn sentences are the same for all systems and all seeds: they share
the test set, so how easy it happens to be must not count again for each of them. With one seed this is the usual paired
bootstrap (Koehn 2004; sacreBLEU's, sample by sample), and says nothing about training again.

With several, samples are off by Student's t times the standard error that training causes (`noise`). Runs are not
drawn with replacement, as sentences are: three of them drawn so vary by much less than three others would. So without
noise of training this is the bootstrap, and without noise of the test set it is a t-test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np

from evenglot.comparison.seed_variance import Contrast
from evenglot.scoring.metrics import Counts, Metric, Numbers

SEED = 12345  # sacreBLEU's
ALPHA = 0.05
ERRORS, DRAWS_PER_QUANTILE = 5, 100


@dataclass(frozen=True)
class Difference:
    """A difference of two scores, its 95 % interval, and how often chance alone makes one as large (two-sided)."""

    difference: float
    interval: tuple[float, float]
    p: float


def samples_for(directions: int) -> int:
    """How many samples: 1000, or as many as Holm's correction needs for its smallest level, .05 / directions."""
    return max(1000, 40 * directions)


def drawn_sentences(sentences: int, samples: int, seed: int | Sequence[int] = SEED) -> Numbers:
    """How often each sentence is in each sample, (samples, sentences)."""
    rows = np.random.default_rng(seed).choice(sentences, size=(samples, sentences), replace=True)
    flat = rows + sentences * np.arange(samples)[:, None]
    return np.bincount(flat.ravel(), minlength=samples * sentences).reshape(samples, sentences).astype(np.float64)


@cache
def drawn_errors(freedom: int, samples: int) -> Numbers:
    """By how many standard errors training is off: Student's t with so many degrees of freedom; 0, if with none.

    (errors, samples): several for each sample, as they cost nothing, and as many up as down. They are quantiles of the
    distribution in random order, since the tails of a thousand draws would be those of chance.
    """
    if freedom == 0:
        return np.zeros((1, samples))
    random = np.random.default_rng([SEED, freedom])
    draws = random.standard_t(freedom, (ERRORS * samples, DRAWS_PER_QUANTILE))
    quantiles = np.sort(draws, axis=None)[DRAWS_PER_QUANTILE // 2 :: DRAWS_PER_QUANTILE]
    shuffled = random.permutation((quantiles - quantiles[::-1]) / 2).reshape(ERRORS, samples)
    return np.concatenate([shuffled, -shuffled])


def sentences_of(references: str, sentences: int, samples: int) -> Numbers:
    """The samples of a test set, by the digest of its references: different sets are drawn independently."""
    return drawn_sentences(sentences, samples, [SEED, crc32(references.encode())])


def sampled_scores(metric: Metric, counts: Counts, sentences: Numbers) -> Numbers:
    """The score of a run in each sample."""
    return metric.score(sentences @ counts.astype(np.float64))


def difference(between: Contrast, observed: Numbers, sampled: Numbers) -> Difference:
    """Of two rows, from the scores of all runs (runs,), and from those in the samples (samples, runs)."""
    noise = between.standard_error(observed) * drawn_errors(between.freedom, len(sampled))
    return judged(float(between.difference(observed)), (between.difference(sampled) + noise).ravel())


def judged(observed: float, sampled: Numbers) -> Difference:
    """What to make of an observed difference and the differences in the samples.

    p: the part of the samples that are as far from their median as the observed difference is from 0. The interval has
    the width in which 95 % of the samples lie around their median, so that it leaves out 0 just where p < .05.
    """
    sampled = sampled[np.isfinite(sampled)]  # there is no loss where all drawn sentences are too long for the model
    if len(sampled) == 0 or np.ptp(sampled) == 0:  # or systems that never differ: nothing can be said
        return Difference(observed, (min(observed, 0.0), max(observed, 0.0)), 1.0)
    off = np.sort(np.abs(sampled - np.median(sampled)))
    extreme = len(off) - int(np.searchsorted(off, abs(observed)))
    half_width = float(off[min(len(off) - 1, len(off) + 1 - math.ceil(ALPHA * (len(off) + 1)))])
    return Difference(observed, (observed - half_width, observed + half_width), (extreme + 1) / (len(off) + 1))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction: significant at .05 after it means that at most 1 in 20 such families has any false finding."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p, key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p}
