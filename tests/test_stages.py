"""Stages: averages and merging."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.stages import Stage, average, merge

NAMES = ("aze-en", "por-en", "tur-en")


@st.composite
def runs(draw) -> list[Stage]:
    """Stages of a run whose mixture drifts, jumps or stays."""
    stages = []
    for _ in range(draw(st.integers(1, 12))):
        amounts = [draw(st.integers(0, 20)) + 1 for _ in NAMES]
        shares = {name: amount / sum(amounts) for name, amount in zip(NAMES, amounts, strict=True)}
        stages += [Stage(shares, draw(st.integers(1, 1000)))] * draw(st.integers(1, 3))
    return stages


def distance(a: Stage, b: Stage) -> float:
    return sum(abs(a.shares[name] - b.shares[name]) for name in a.shares) / 2


@given(runs(), st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0]))
def test_merging_keeps_the_samples_and_stays_within_the_tolerance(stages, tolerance):
    merged = merge(stages, tolerance)
    assert sum(stage.pairs for stage in merged) == pytest.approx(sum(stage.pairs for stage in stages))
    assert list(average(merged).values()) == pytest.approx(list(average(stages).values()))
    ends = np.cumsum([stage.pairs for stage in merged])
    middle = np.cumsum([stage.pairs for stage in stages]) - 0.5
    for stage, became in zip(stages, np.searchsorted(ends, middle), strict=True):
        assert distance(stage, merged[became]) <= tolerance + 1e-8


@given(runs())
def test_equal_neighbours_are_merged_without_any_tolerance(stages):
    changes = sum(a.shares != b.shares for a, b in pairwise(stages))
    assert len(merge(stages, 0.0)) == changes + 1
    assert len(merge(stages, 1.0)) == 1


def test_the_average_counts_sentence_pairs():
    stages = [Stage({"a": 0.9, "b": 0.1}, 100), Stage({"a": 0.5, "b": 0.5}, 300)]
    assert average(stages) == pytest.approx({"a": 0.6, "b": 0.4})


def test_a_stage_without_end_is_its_own_average():
    assert average([Stage({"a": 0.25, "b": 0.75}, math.inf)]) == {"a": 0.25, "b": 0.75}
