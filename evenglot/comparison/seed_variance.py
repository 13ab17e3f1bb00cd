"""The noise of training: how far apart are runs that differ in nothing but their seed?

A few seeds of one strategy hardly tell. But runs of most strategies are about equally noisy, so all of them are asked:

    score of a run = what its strategy does + what its seed does + noise

is fitted to the runs by least squares (analysis of variance with two factors; seeds are the blocks, because runs of one
seed share their initialisation and the order of their data). What is left over is noise. With two strategies this is
the paired t-test; with eight strategies and three seeds there are 14 degrees of freedom instead of 2, and intervals
less than half as wide. Strategies may lack seeds: one that has a single run is taken to be as noisy as the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenglot.scoring.metrics import Numbers

SEED = 2021
SIMULATIONS, AT_ONCE = 2000, 100  # a hundred languages and as many runs must fit into memory
CHANCE = 0.01  # of finding a noisy row among rows that are alike
ROUNDING = 1e-12

Label = tuple[str, int]  # of a run: its row, and its seed
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Contrast:
    """What tells two rows apart: weights of all runs, whose weighted sum is the difference, and what it is off by.

    Both are rounded: rounding errors of the fit must not tell twins apart.
    """

    weights: Numbers  # (runs,)
    residuals: Numbers  # (runs, runs): residuals @ scores is what the fit leaves over
    freedom: int  # degrees of freedom of the noise; 0 if nothing is known about it
    by_seed: bool  # what seeds do is taken out, not taken for noise

    def difference(self, scores: Numbers) -> Numbers:
        """Of scores (..., runs)."""
        found: Numbers = np.round(scores @ self.weights, 9) + 0.0
        return found

    def standard_error(self, scores: Numbers) -> float:
        """Of the difference of scores (runs,), as far as training is its cause."""
        if self.freedom == 0:
            return 0.0
        noise = np.linalg.norm(self.residuals @ scores) / np.sqrt(self.freedom)
        return round(float(noise * np.linalg.norm(self.weights)), 9)


def contrast(runs: Sequence[Label], row: str, reference: str) -> Contrast:
    """Of two rows, among these runs.

    What seeds do is taken out, where a chain of shared seeds leads from one row to the other and runs are left to tell
    of noise. Otherwise it is part of the noise, of which then the two rows tell by themselves, if they can.
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
    """By least squares on the runs that are used; None if these do not tell the rows apart."""
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
    """The rows whose runs lie farther apart than those of the others, beyond chance; scores (runs, directions)."""
    found: list[str] = []
    while True:
        left = [place for place, (name, _) in enumerate(runs) if name not in found]
        noisiest = _noisiest([runs[place] for place in left], scores[left])
        if noisiest is None:
            return found
        found.append(noisiest)


def _noisiest(runs: Sequence[Label], scores: Numbers) -> str | None:
    """The row with the largest part of what the fit leaves over, in proportion to its runs, if that is larger than the
    largest part that any row has in nearly all simulations where they are alike.

    A lucky run is lucky in many directions, so these hang together in the simulations as they do here.
    """
    names = [name for name, _ in runs]
    residuals, freedom = _residuals(np.hstack([_indicators(names), _indicators([seed for _, seed in runs])]))
    members = _indicators(names).T
    expected = members @ np.diag(residuals) / max(1, freedom)
    several = expected > ROUNDING
    if several.sum() < 3:  # of two rows nobody can tell which is the noisy one
        return None

    def parts(values: Numbers) -> Numbers:
        """Of values (..., runs, directions), mean of directions: the part of each row, over what is to be expected."""
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
    """The matrix that takes scores to what a fit of this design leaves over, and its degrees of freedom."""
    matrix: Numbers = np.eye(len(design)) - design @ np.linalg.pinv(design)
    return matrix, len(design) - int(np.linalg.matrix_rank(design))


def _indicators(labels: Sequence[Hashable]) -> Numbers:
    """(runs, different labels): 1 where a run has the label."""
    different = list(dict.fromkeys(labels))
    return np.array([[float(label == each) for each in different] for label in labels])
