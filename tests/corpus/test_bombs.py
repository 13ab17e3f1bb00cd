"""Small files whose text is large: memory for reading them does not grow with it, or they are refused."""

import pyarrow
import pytest
from pyarrow import ipc, parquet

from evenglot.corpus import arrow
from evenglot.corpus.read import CorpusError, read_blocks
from evenglot.text_file import TextFile

ROWS, SENTENCE = 500, "x" * 1_000_000  # 500 MB
WORDS = pyarrow.array([SENTENCE, "y"])
REPEATED = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * ROWS, pyarrow.int32()), WORDS)
MANY = 100_000


def dictionary_parquet(path, column):
    parquet.write_table(pyarrow.table({"por": column, "en": column}), path, compression="zstd")


def prefixed_parquet(path, column):
    table = pyarrow.table({"por": column.dictionary_decode(), "en": column.dictionary_decode()})
    parquet.write_table(table, path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")


def dictionary_arrow(path, column):
    table = pyarrow.table({"por": column, "en": column})
    with ipc.new_file(path, table.schema) as file:
        file.write_table(table)


@pytest.mark.parametrize("write", [dictionary_parquet, prefixed_parquet, dictionary_arrow])
def test_memory_is_bounded_where_a_long_sentence_is_stored_once(tmp_path, write):
    path = tmp_path / f"x.{write.__name__.rpartition('_')[2]}"
    write(path, REPEATED)
    assert path.stat().st_size < 3_000_000
    default = pyarrow.default_memory_pool()
    counted = pyarrow.proxy_memory_pool(default)
    pyarrow.set_memory_pool(counted)
    try:
        lengths = [len(sentence) for block in pairs_in(path) for sentence in block.sentences()[0]]
    finally:
        pyarrow.set_memory_pool(default)
    assert lengths == [len(SENTENCE)] * ROWS
    assert counted.max_memory() < 200_000_000


def pairs_in(path):
    return read_blocks([(TextFile(path, "por"), TextFile(path, "en"))])


@pytest.mark.parametrize("column", [["a"] * MANY, ["x" * MANY]], ids=["rows", "bytes"])
def test_what_expands_as_text_does_not_is_refused(tmp_path, monkeypatch, column):
    monkeypatch.setattr(arrow, "SMALL", 1 << 16)
    dictionary_parquet(tmp_path / "x.parquet", pyarrow.array(column))
    with pytest.raises(CorpusError, match=r"x\.parquet: .* expand to"):
        list(pairs_in(tmp_path / "x.parquet"))


def test_a_null_in_a_dictionary_is_a_null(tmp_path):
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 0], pyarrow.int8()), pyarrow.array(["a", None]))
    dictionary_arrow(tmp_path / "x.arrow", column)
    with pytest.raises(CorpusError, match=r"x\.arrow:2: .*null"):
        list(pairs_in(tmp_path / "x.arrow"))
