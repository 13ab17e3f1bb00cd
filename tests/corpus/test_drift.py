"""Where files of unequal length drift apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus.drift import drift, shifted_part

LINES = 400


def translated(seed, noise=0.15):
    """Lengths of sentences, and of their translations."""
    random = np.random.default_rng(seed)
    source = np.exp(random.normal(4, 0.8, LINES)).astype(int) + 1
    return source, (source * np.exp(random.normal(0.1, noise, LINES))).astype(int) + 1


@given(st.integers(0, 10**6), st.integers(0, LINES - 1), st.integers(1, 5), st.booleans())
def test_the_place_of_missing_lines_is_found(seed, place, missing, of_source):
    source, target = translated(seed)
    cut = slice(place, min(place + missing, LINES))
    source, target = (np.delete(source, cut), target) if of_source else (source, np.delete(target, cut))
    assert drift(source, target) == pytest.approx(place, abs=12)


def test_lines_that_are_missing_at_the_end_are_found_there():
    source, target = translated(1)
    assert drift(source, target[:-7]) == LINES - 7


def test_files_that_are_no_translations_have_no_such_place():
    assert drift(translated(1)[0], translated(2)[1][:-7]) is None


@pytest.mark.parametrize(("left", "right"), [([], [1]), ([3, 4], [5, 6]), ([5] * 50, [5] * 60)])
def test_it_says_nothing_it_does_not_know(left, right):
    assert drift(left, right) is None


@given(st.integers(0, 10**6), st.integers(60, LINES - 160), st.integers(100, LINES))
def test_the_part_between_two_missing_lines_is_found(seed, first, length):
    source, target = translated(seed)
    end = min(first + length, LINES - 1)
    source, target = np.delete(source, first), np.delete(target, end)
    assert shifted_part(source / target) == pytest.approx((first, end), abs=30)


@given(st.integers(0, 10**6), st.floats(0.05, 0.5))
def test_no_part_of_a_parallel_corpus_is_shifted(seed, noise):
    source, target = translated(seed, noise)
    assert shifted_part(source / target) is None


def test_parts_are_compared_by_what_is_known_of_their_lengths():
    source, target = translated(1)
    ratios = np.delete(source, 100) / np.delete(target, 300)
    ratios[::7] = 0
    assert shifted_part(ratios) == pytest.approx((100, 300), abs=12)
    assert shifted_part(np.zeros(5)) is None
    assert shifted_part([]) is None
