import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.batches.draw import interval_counts, released_interval_counts
from tests.golden_cases import golden


@pytest.mark.parametrize("case", golden("epoch_counts"))
def test_golden_counts(case):
    expected = case["expected"]
    counts = interval_counts(case["sizes"], case["q"])
    assert counts.tolist() == expected["ceil_counts"]
    assert counts.sum() == expected["ceil_total"]
    for cap in (1, 1.5):
        counts, left_over = released_interval_counts(case["sizes"], case["q"], cap)
        released = expected[f"released_cap_{cap}"]
        assert counts.tolist() == released["floor_counts"]
        assert left_over == released["random_remainder"]
        assert counts.sum() + left_over == released["epoch_size"]


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=20), st.data())
def test_an_interval_is_as_long_as_the_data_and_no_group_with_a_share_is_left_out(sizes, data):
    shares = data.draw(st.lists(st.integers(0, 1000), min_size=len(sizes), max_size=len(sizes)).filter(any))
    counts = interval_counts(sizes, shares)
    total = sum(sizes)
    assert total <= counts.sum() <= total + len(sizes)
    q = np.array(shares) / sum(shares)
    assert (np.abs(counts - total * q) < 1 + 1e-6).all()
    assert (counts[q * total > 1e-6] > 0).all()


def test_the_released_rule_survives_a_largest_corpus_that_is_not_drawn():
    counts, left_over = released_interval_counts([100, 10], [0.0, 1.0])
    assert counts.tolist() == [0, 165]
    assert left_over == 0


@pytest.mark.parametrize("q", [[0.5], [0.5, np.nan], [-0.5, 1.5]])
def test_a_bad_mixture_is_refused(q):
    with pytest.raises(ValueError, match=r"^q:"):
        interval_counts([10, 20], q)
