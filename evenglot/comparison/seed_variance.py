"""Seed variance: the variance between runs that differ only in their seed.

A few seeds of one strategy give a poor estimate. But most strategies have about the same seed variance, so it is
pooled over all of them. The model

    score of a run = effect of its strategy + effect of its seed + noise

is fitted by least squares (two-way analysis of variance with seeds as blocks, because runs with the same seed share
their initialisation and data order). The residuals are the noise. With two strategies this is the paired t-test; with
eight strategies and three seeds there are 14 degrees of freedom instead of 2, and intervals are less than half as wide.
Strategies may lack seeds: one with a single run is assumed to have the same variance as the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenglot.scoring.metrics import Numbers

SEED = 2021
SIMULATIONS, AT_ONCE = 2000, 100  # a batch with a hundred languages and a hundred runs must fit into memory
CHANCE = 0.01  # false-positive rate of finding a noisy row among rows of equal variance
ROUNDING = 1e-12

Label = tuple[str, int]  # of a run: its row, and its seed
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Contrast:
    """The difference of two rows as a weighted sum of run scores, and its standard error.

    Both are rounded, so that numerical errors of the fit do not make identical runs differ.
    """

    weights: Numbers  # (runs,)
    residuals: Numbers  # (runs, runs): residuals @ scores are the residuals of the fit
    freedom: int  # degrees of freedom of the noise; 0 if it cannot be estimated
    by_seed: bool  # seed effects are removed, not counted as noise

    def difference(self, scores: Numbers) -> Numbers:
        """Difference of the two rows, from scores (..., runs)."""
        found: Numbers = np.round(scores @ self.weights, 9) + 0.0
        return found

    def standard_error(self, scores: Numbers) -> float:
        """Standard error of the difference due to seed variance, from scores (runs,)."""
        if self.freedom == 0:
            return 0.0
        noise = np.linalg.norm(self.residuals @ scores) / np.sqrt(self.freedom)
        return round(float(noise * np.linalg.norm(self.weights)), 9)


def contrast(runs: Sequence[Label], row: str, reference: str) -> Contrast:
    """The contrast between two rows, fitted to these runs.

    Seed effects are removed if shared seeds connect the two rows, directly or through other rows, and degrees of
    freedom are left. Otherwise they count as noise, estimated from the two rows alone if these have several runs.
    """
    every = np.full(len(runs), True)
    pair = np.array([name in (row, reference) for name, _ in runs])
    choices = [
        found
        for used, by_seed in ((every, True), (pair, False), (every, False))
        if (found := _fitted(runs, used, by_seed, row, reference)) is not None
    ]
    return next((found for found in choices if found.freedom), choices[0])


def _fitted(runs: Sequence[Label], used: Bools, by_seed: bool, row: str, reference: str) -> Contrast | None:
    """Least-squares fit to the used runs; None if the difference cannot be estimated from them."""
    chosen = [run for run, is_used in zip(runs, used, strict=True) if is_used]
    names = list(dict.fromkeys(name for name, _ in chosen))
    design = _indicators([name for name, _ in chosen])
    if by_seed:
        design = np.hstack([design, _indicators([seed for _, seed in chosen])])
    wanted = np.zeros(design.shape[1])
    wanted[names.index(row)] += 1
    wanted[names.index(reference)] -= 1
    solution = wanted @ np.linalg.pinv(design)
    if not np.allclose(solution @ design, wanted):
        return None
    weights, residuals = np.zeros(len(runs)), np.zeros((len(runs), len(runs)))
    weights[used] = solution
    residuals[np.ix_(used, used)], freedom = _residuals(design)
    return Contrast(weights, residuals, freedom, by_seed)


def noisy_rows(runs: Sequence[Label], scores: Numbers) -> list[str]:
    """Rows with significantly larger seed variance than the others; scores (runs, directions)."""
    found: list[str] = []
    while True:
        left = [place for place, (name, _) in enumerate(runs) if name not in found]
        noisiest = _noisiest([runs[place] for place in left], scores[left])
        if noisiest is None:
            return found
        found.append(noisiest)


def _noisiest(runs: Sequence[Label], scores: Numbers) -> str | None:
    """The row with the largest share of the residual variance relative to its expected share, if significant.

    The null distribution is the largest such ratio of any row in simulations where all rows have equal variance. A run
    tends to be good or bad in many directions at once, so the simulations keep the correlation between directions.
    """
    names = [name for name, _ in runs]
    residuals, freedom = _residuals(np.hstack([_indicators(names), _indicators([seed for _, seed in runs])]))
    members = _indicators(names).T
    expected = members @ np.diag(residuals) / max(1, freedom)
    several = expected > ROUNDING
    if several.sum() < 3:  # with two rows it is undecidable which one is noisy
        return None

    def parts(values: Numbers) -> Numbers:
        """Observed over expected share of each row in the residual variance of values (..., runs, directions)."""
        squares = members[several] @ (residuals @ values) ** 2
        total = squares.sum(axis=-2, keepdims=True)
        of_rows: Numbers = (squares / np.maximum(total, ROUNDING)).mean(axis=-1) / expected[several]
        return of_rows

    observed = parts(scores)
    _, sizes, axes = np.linalg.svd(residuals @ scores, full_matrices=False)
    random = np.random.default_rng(SEED)
    as_large = 0
    for _ in range(SIMULATIONS // AT_ONCE):
        alike = random.standard_normal((AT_ONCE, len(runs), len(sizes))) @ (sizes[:, None] * axes)
        as_large += int(np.count_nonzero(parts(alike).max(axis=-1) >= observed.max()))
    if as_large >= CHANCE * SIMULATIONS:
        return None
    return list(dict.fromkeys(names))[int(np.flatnonzero(several)[observed.argmax()])]


def _residuals(design: Numbers) -> tuple[Numbers, int]:
    """The matrix that maps scores to the residuals of a fit with this design, and its degrees of freedom."""
    matrix: Numbers = np.eye(len(design)) - design @ np.linalg.pinv(design)
    return matrix, len(design) - int(np.linalg.matrix_rank(design))


def _indicators(labels: Sequence[Hashable]) -> Numbers:
    """Indicator matrix (runs, distinct labels): 1 where a run has the label."""
    different = list(dict.fromkeys(labels))
    return np.array([[float(label == each) for each in different] for label in labels])
