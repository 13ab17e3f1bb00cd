import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus import lines as lines_of_files
from evenglot.corpus import read
from evenglot.corpus.read import CorpusError, read_blocks, read_column, read_pairs, read_some, reject_invalid
from evenglot.text_file import TextFile
from tests.corpus.files import write


def pair_of_files(folder, source, target):
    return TextFile(write(folder, "a.txt", source)), TextFile(write(folder, "b.txt", target))


def test_the_place_where_unequal_files_drift_apart_is_told(tmp_path, monkeypatch):
    for module in (read, lines_of_files):
        monkeypatch.setattr(module, "CHUNK", 500)
    lengths = np.random.default_rng(1).integers(1, 200, 300)
    lines = [b"x" * length for length in lengths]
    files = pair_of_files(tmp_path, b"\n".join(lines), b"\n".join(lines[:120] + lines[123:]))
    with pytest.raises(CorpusError, match=r"near line 121\b"):
        list(read_blocks([files]))


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [
        (b"1\n2\n3\n4\n", b"1\n2\n", ("4 lines", "2")),
        (b"1\n", b"1\n2\n3\n", ("1 line", "3")),
        (b"", b"1\n", ("0 lines", "1")),
    ],
)
def test_unequal_files_are_refused_with_both_counts(tmp_path, source, target, counts):
    with pytest.raises(CorpusError, match=rf"a\.txt has {counts[0]}, .*b\.txt has {counts[1]}"):
        list(read_pairs(*pair_of_files(tmp_path, source, target)))


def test_invalid_utf8_is_an_error_with_file_and_line_or_dropped(tmp_path):
    files = pair_of_files(tmp_path, b"one\ntwo\nthree\n", b"eins\nzw\xffi\n drei \n")
    assert list(read_pairs(*files)) == [("one", "eins"), None, ("three", "drei")]
    with pytest.raises(CorpusError, match=r"b\.txt:2: not UTF-8 \(byte 0xff at 2\); do this"):
        list(reject_invalid(read_pairs(*files), *files, "do this"))


def test_tsv_columns_by_number_or_header(tmp_path):
    path = write(tmp_path, "x.gz", b'en\tpt\n"quoted\tlines"\nare\tplain\ttext\n')
    assert list(read_column(TextFile(path, 1))) == [b"pt", b'lines"', b"plain"]
    assert list(read_pairs(TextFile(path, "pt"), TextFile(path, "en"))) == [('lines"', '"quoted'), ("plain", "are")]
    with pytest.raises(CorpusError, match="no column 'de'; the header has en, pt"):
        list(read_column(TextFile(path, "de")))
    with pytest.raises(CorpusError, match=r"x\.gz:1: 2 columns.*column 3"):
        list(read_column(TextFile(path, 2)))
    invalid = write(tmp_path, "y.txt", b"en\tpt\n\xff\tb\n")
    sides = TextFile(invalid, "en"), TextFile(invalid, "pt")
    with pytest.raises(CorpusError, match=r"y\.txt:2: not UTF-8"):
        list(reject_invalid(read_pairs(*sides), *sides, "do this"))


def utf8(line):
    """The text of a line, or None."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"").replace(b"\t", b"")), max_size=20)


@given(LINES, st.integers(1, 40), st.integers(1, 7), st.data())
def test_blocks_hold_the_pairs_however_they_are_cut(tmp_path_factory, lines, chunk, most, data):
    folder = tmp_path_factory.mktemp("blocks")
    lines = [b"x" + line for line in lines]  # no byte order mark, and no empty last line
    files = pair_of_files(folder, b"".join(line + b"\n" for line in lines), b"".join(line + b"!\n" for line in lines))
    wanted = sorted(data.draw(st.sets(st.integers(0, len(lines) - 1)))) if lines else []
    with pytest.MonkeyPatch.context() as patch:
        for module in (read, lines_of_files):
            patch.setattr(module, "CHUNK", chunk)
        patch.setattr(read, "BLOCK_LINES", most)
        blocks = list(read_blocks([files]))
        found = list(read_pairs(*files))
        valid = [i for i in wanted if found[i] is not None]
        some = list(read_some([files[0]], np.array(valid, dtype=np.int64)))
    decoded = map(utf8, lines)
    assert found == [None if line is None else (line.strip(), f"{line}!".strip()) for line in decoded]
    assert some == [found[i][0] for i in valid]
    assert [block.first for block in blocks] == [sum(b.count for b in blocks[:i]) for i in range(len(blocks))]
    assert sum(block.count for block in blocks) == len(lines)
    assert all(block.count <= most for block in blocks)


def test_an_empty_corpus_is_one_block_without_lines(tmp_path):
    (block,) = read_blocks([pair_of_files(tmp_path, b"", b"")])
    assert block.count == 0
    assert block.sentences() == ([], [], [])


def test_a_block_can_be_shortened_and_names_what_is_not_utf8(tmp_path):
    path = write(tmp_path, "x.gz", b"en\tpt\n" + b"a\tb\n" * 3 + b"c\t\xffd\n" + b"e\tf\n")
    (block,) = read_blocks([(TextFile(path, "en"), TextFile(path, "pt"))])
    assert block.sentences() == (["a", "a", "a", "", "e"], ["b", "b", "b", "", "f"], [3])
    assert block.head(2).sentences() == (["a", "a"], ["b", "b"], [])
    assert str(block.invalid(3, "do this")).startswith(f"{path}:5: not UTF-8 (byte 0xff at 0)")


def test_some_sentences_are_read_by_their_positions(tmp_path):
    path = write(tmp_path, "x.zst", b"en\tpt\n" + b"".join(b"%d\t %d \n" % (i, 10 * i) for i in range(50)))
    assert list(read_some([TextFile(path, "pt")], np.array([0, 7, 49]))) == ["0", "70", "490"]
    assert list(read_some([TextFile(path, 0)], np.array([0, 1]))) == ["en", "0"]
    with pytest.raises(CorpusError, match="changed"):
        list(read_some([TextFile(path, "pt")], np.array([50])))
