"""The short form of `python -m torture.readers`."""

import pytest

from torture.readers import KINDS, rows_of


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_changed_content_is_refused_or_read(kind):
    row, faults = rows_of(kind, cases=100, seed=2)
    assert faults == []
    assert row.tried == 100
    assert row.deep >= 50
