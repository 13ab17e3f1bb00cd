"""The figures in docs/reliability.md: rows replaced one by one, and a summary that follows from them."""

import pytest

from torture import page

PAGE = """\
<!-- summary: begin -->
<!-- summary: end -->
<!-- crashes: begin -->
| command | operations | killed before one | within a write | differences | day |
|---|--:|--:|--:|--:|--:|
| train | 90 | 90 | 4 | 1 | 2026-01-01 |
<!-- crashes: end -->
<!-- kills: begin -->
1,204 kills (3 gradient): 2 differences.

Again: 30 kills (1 gradient): 0 differences.
<!-- kills: end -->
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    monkeypatch.setattr(page, "PAGE", file)
    return file


def test_a_row_is_added_or_replaced_in_order_and_the_summary_follows(written):
    head = "| command | operations | killed before one | within a write | differences |"
    rows = page.Rows("crashes", head, ["prepare", "train"])
    rows.add("prepare", (5_000, 5_000, 6, 0))
    rows.add("train", (80, 80, 4, 0))
    lines = written.read_text().splitlines()
    first, second = (line for line in lines if line.startswith(("| prepare", "| train")))
    assert first == f"| prepare | 5,000 | 5,000 | 6 | 0 | {page.today()} |"
    assert second == f"| train | 80 | 80 | 4 | 0 | {page.today()} |"
    assert any(line.endswith("(#crash-points) | 5,090 | 0 |") for line in lines)


def test_the_summary_adds_up_all_kills(written):
    assert "(#killed-runs) | 1,234 | 2 |" in page.summary(written.read_text())


def test_the_summary_of_the_docs_is_that_of_its_tables():
    text = page.PAGE.read_text(encoding="utf-8")
    assert f"<!-- summary: begin -->\n{page.summary(text)}\n<!-- summary: end -->" in text


def test_an_attack_without_a_place_is_refused(written):
    with pytest.raises(SystemExit, match="full"):
        page.write("full", "")
