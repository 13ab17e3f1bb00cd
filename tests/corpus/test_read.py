import gzip

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus import read
from evenglot.corpus.read import CorpusError, read_column, read_lines, read_pairs, reject_invalid
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


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [(b"1\n2\n3\n4\n", b"1\n2\n", ("4", "2")), (b"1\n", b"1\n2\n3\n", ("1", "3")), (b"", b"1\n", ("0", "1"))],
)
def test_unequal_files_are_refused_with_both_counts(tmp_path, source, target, counts):
    with pytest.raises(CorpusError, match=rf"a\.txt has {counts[0]} lines, .*b\.txt has {counts[1]}"):
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
