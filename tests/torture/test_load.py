"""The short form of `python -m torture.load`."""

import pytest

from torture.load import figures


@pytest.mark.slow
def test_no_request_is_lost_or_mixed_up(tmp_path):
    rows = figures(tmp_path, requests=200, clients=20, connections=60, seed=1)
    *attacks, log = rows
    assert [row[1:4] for row in attacks] == [("200", "0", "0"), ("20", "0", "0"), *[("20", "0", "0")] * 3]
    assert "exit code 0" in attacks[1][4]
    assert [row[4].split(" ended")[0] for row in attacks[2:]] == ["60"] * 3
    assert int(log[1].replace(",", "")) < 100_000
