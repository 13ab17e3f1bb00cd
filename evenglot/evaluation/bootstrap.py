"""Is a difference more than chance? A paired bootstrap over training seeds and test sentences.

A sample draws sentences with replacement, and weighs the runs. The drawn sentences are the same for all systems and all
seeds: they share the test set, so how easy it happens to be must not count again for each of them. With one seed this
is the usual paired bootstrap (Koehn 2004; sacreBLEU's, sample by sample), and says nothing about training again.

Runs are not drawn with replacement, as sentences are: they are few, and three of them drawn so vary by much less than
three others would. Their weights are those with which the mean of the sample varies as Student's t says. So without
noise of training this is the bootstrap, and without noise of the test set it is the paired t-test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from evenglot.evaluation.statistics import Counts, Metric, Numbers

SEED = 12345  # sacreBLEU's


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


def drawn_weights(runs: int, samples: int, which: Sequence[int] = ()) -> Numbers:
    """What each of so many training runs counts in each sample, (samples, runs); independent for another `which`.

    Their sum is 1. The mean of values so weighed is their mean plus their standard error times Student's t.
    """
    if runs == 1:
        return np.ones((samples, 1))
    random = np.random.default_rng([SEED, runs, *which])
    normal = random.standard_normal((samples, runs))
    freedom = runs - 1
    spread = np.sqrt(random.chisquare(freedom, (samples, 1)) / freedom)
    weights: Numbers = 1 / runs + (normal - normal.mean(axis=1, keepdims=True)) / spread / np.sqrt(runs * freedom)
    return weights


def sentences_of(references: str, sentences: int, samples: int) -> Numbers:
    """The samples of a test set, by the digest of its references: different sets are drawn independently."""
    return drawn_sentences(sentences, samples, [SEED, crc32(references.encode())])


def sampled_scores(metric: Metric, counts: Sequence[Counts], sentences: Numbers, weights: Numbers) -> Numbers:
    """The score of a system in each sample: the weighted mean of its runs; `counts` has one array for each run."""
    of_runs = np.stack([metric.score(sentences @ each.astype(np.float64)) for each in counts], axis=1)
    means: Numbers = (of_runs * weights).sum(axis=1)
    return means


def difference(observed: float, sampled: Numbers) -> Difference:
    """What to make of an observed difference and the differences in the samples.

    p: the part of the samples that are as far from their median as the observed difference is from 0.
    """
    low, high = np.quantile(sampled, [0.025, 0.975])
    if np.ptp(sampled) == 0:  # one sentence, or systems that never differ: nothing can be said
        return Difference(observed, (float(low), float(high)), 1.0)
    extreme = np.count_nonzero(np.abs(sampled - np.median(sampled)) >= abs(observed))
    return Difference(observed, (float(low), float(high)), (extreme + 1) / (len(sampled) + 1))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction: significant at .05 after it means that at most 1 in 20 such families has any false finding."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p, key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p}
