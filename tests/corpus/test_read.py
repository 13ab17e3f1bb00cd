import gzip

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus import read
from evenglot.corpus.read import (
    CorpusError,
    read_blocks,
    read_column,
    read_lines,
    read_pairs,
    read_some,
    reject_invalid,
)
from evenglot.text_file import TextFile

COMPRESS = {"txt": bytes, "gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}


def write(folder, name, content):
    """A file of this content, compressed as its name says."""
    path = folder / name
    path.write_bytes(COMPRESS[path.suffix[1:]](content))
    return path


@pytest.mark.parametrize("extension", COMPRESS)
def test_only_a_newline_ends_a_line(tmp_path, extension):
    odd = ["one\u2028still one", "two\rstill two", "three\x0c\x0b\x85still", "\u2029", "", "six\r"]
    path = write(tmp_path, f"x.{extension}", "\n".join(odd).encode())
    assert [line.decode() for line in read_lines(path)] == odd


@pytest.mark.parametrize("content", [b"a\nb", b"a\nb\n", b"\xef\xbb\xbfa\nb\n"])
def test_a_last_newline_and_a_byte_order_mark_make_no_difference(tmp_path, content):
    assert list(read_lines(write(tmp_path, "x.txt", content))) == [b"a", b"b"]


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)), st.integers(1, 40))
def test_lines_do_not_depend_on_how_the_file_is_cut_into_chunks(tmp_path_factory, lines, chunk):
    path = tmp_path_factory.mktemp("lines") / "x.txt"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    original, read.CHUNK = read.CHUNK, chunk
    try:
        expected = [lines[0].removeprefix(read.BOM), *lines[1:]] if lines else []
        assert list(read_lines(path)) == expected
    finally:
        read.CHUNK = original


def test_concatenated_compressed_files_are_read_to_the_end(tmp_path):
    for extension in ("gz", "zst"):
        path = tmp_path / f"x.{extension}"
        path.write_bytes(COMPRESS[extension](b"a\n") + COMPRESS[extension](b"b\n"))
        assert list(read_lines(path)) == [b"a", b"b"]


@pytest.mark.parametrize("extension", ["gz", "zst"])
def test_a_truncated_or_damaged_file_is_named_with_the_line_reached(tmp_path, extension):
    whole = COMPRESS[extension]("".join(f"line {i} {i * 7919 % 1000}\n" for i in range(100_000)).encode())
    cut, noise = tmp_path / f"cut.{extension}", tmp_path / f"noise.{extension}"
    cut.write_bytes(whole[: len(whole) // 2])
    noise.write_bytes(b"this was never compressed")
    with pytest.raises(CorpusError, match=rf"cut\.{extension}:\d+: "):
        list(read_lines(cut))
    with pytest.raises(CorpusError, match=rf"noise\.{extension}:1: "):
        list(read_lines(noise))


def test_missing_files_folders_and_endless_lines_are_refused(tmp_path):
    with pytest.raises(CorpusError, match="nowhere: no such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(CorpusError, match="is a directory"):
        list(read_lines(tmp_path))
    endless = write(tmp_path, "x.txt", b"short\n" + b"x" * (3 * read.LONGEST_LINE))
    with pytest.raises(CorpusError, match=r"x\.txt:2: .*1,048,576 bytes"):
        list(read_lines(endless))
    at_once = write(tmp_path, "y.txt", b"x" * (read.LONGEST_LINE + 1) + b"\nshort\n")
    with pytest.raises(CorpusError, match=r"y\.txt:1: .*1,048,576 bytes"):
        list(read_lines(at_once))


def pair_of_files(folder, source, target):
    return TextFile(write(folder, "a.txt", source)), TextFile(write(folder, "b.txt", target))


def test_the_place_where_unequal_files_drift_apart_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "CHUNK", 500)
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


def test_what_is_read_from_disk_is_told(tmp_path):
    path = write(tmp_path, "x.gz", b"some text\n" * 1000)
    heard = []
    list(read_lines(path, heard.append))
    assert sum(heard) == path.stat().st_size


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
        patch.setattr(read, "CHUNK", chunk)
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


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
def test_text_that_expands_much_comes_in_small_chunks(tmp_path, name):
    path = write(tmp_path, name, bytes(20 * read.CHUNK))
    sizes = [len(chunk) for chunk in read.read_chunks(path)]
    assert sum(sizes) == 20 * read.CHUNK
    assert max(sizes) <= read.CHUNK
