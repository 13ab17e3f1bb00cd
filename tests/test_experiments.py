"""What the docs say of experiments is what the kept results say."""

from experiments.tables import BLOCK, PAGE, renewed


def test_the_tables_of_the_docs_are_those_of_the_kept_results(capsys):
    text = PAGE.read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert renewed(text) == text, "run: python -m experiments.tables"
