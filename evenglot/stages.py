"""Mixtures over the course of a run: which shares were sampled for how long, their average, and fewer stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-9  # a distance between mixtures that is no difference


class Stage(NamedTuple):
    """A mixture and how long it is sampled."""

    shares: Mapping[str, float]  # of the sentence pairs, by direction; they sum to 1
    pairs: float  # sentence pairs in this stage; inf: no end


def average(stages: Sequence[Stage]) -> dict[str, float]:
    """The shares of all sentence pairs of these stages; of a single stage, its own."""
    if len(stages) == 1:
        return dict(stages[0].shares)
    weights = np.array([stage.pairs for stage in stages])
    return dict(zip(stages[0].shares, (weights @ _matrix(stages) / weights.sum()).tolist(), strict=True))


def merge(stages: Sequence[Stage], tolerance: float) -> list[Stage]:
    """Fewer stages: neighbours become one that has their average shares and all of their sentence pairs.

    No stage differs from the one it has become part of by more than `tolerance`, in total variation distance: half the
    sum of the absolute differences, which is the part of the samples that has another direction.
    """
    merged: list[Stage] = []
    members: list[Stage] = []
    for stage in stages:
        if members and _spread([*members, stage]) > tolerance + ROUNDING:
            merged.append(_joined(members))
            members = []
        members.append(stage)
    return [*merged, _joined(members)] if members else merged


def _joined(stages: Sequence[Stage]) -> Stage:
    return Stage(average(stages), sum(stage.pairs for stage in stages))


def _spread(stages: Sequence[Stage]) -> float:
    """Largest total variation distance of a stage from the average of all."""
    mean = np.array(list(average(stages).values()))
    return float(np.abs(_matrix(stages) - mean).sum(axis=1).max() / 2)


def _matrix(stages: Sequence[Stage]) -> NDArray[np.float64]:
    """One row per stage; columns in the order of the first stage's directions."""
    names = list(stages[0].shares)
    return np.array([[stage.shares[name] for name in names] for stage in stages])
