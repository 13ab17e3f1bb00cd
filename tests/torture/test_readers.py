"""The short form of `python -m torture.readers`."""

import pytest

from torture.readers import all_rows


@pytest.mark.slow
def test_changed_content_is_refused_or_read():
    for kind, (row, faults) in all_rows(cases=40, seed=2).items():
        assert faults == [], kind
        assert row.tried == 40
        assert row.deep >= 20, kind
