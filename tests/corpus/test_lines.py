import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenglot.corpus import lines
from evenglot.corpus.lines import BOM, LONGEST_LINE, read_chunks, read_lines
from evenglot.text_file import CorpusError
from tests.corpus.files import COMPRESS, write


@pytest.mark.parametrize("extension", COMPRESS)
def test_only_a_newline_ends_a_line(tmp_path, extension):
    odd = ["one\u2028still one", "two\rstill two", "three\x0c\x0b\x85still", "\u2029", "", "six\r"]
    path = write(tmp_path, f"x.{extension}", "\n".join(odd).encode())
    assert [line.decode() for line in read_lines(path)] == odd


@pytest.mark.parametrize("content", [b"a\nb", b"a\nb\n", b"\xef\xbb\xbfa\nb\n"])
def test_a_last_newline_and_a_byte_order_mark_make_no_difference(tmp_path, content):
    assert list(read_lines(write(tmp_path, "x.txt", content))) == [b"a", b"b"]


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)), st.integers(1, 40))
def test_lines_do_not_depend_on_how_the_file_is_cut_into_chunks(tmp_path_factory, text, chunk):
    path = tmp_path_factory.mktemp("lines") / "x.txt"
    path.write_bytes(b"".join(line + b"\n" for line in text))
    original, lines.CHUNK = lines.CHUNK, chunk
    try:
        expected = [text[0].removeprefix(BOM), *text[1:]] if text else []
        assert list(read_lines(path)) == expected
    finally:
        lines.CHUNK = original


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
    endless = write(tmp_path, "x.txt", b"short\n" + b"x" * (3 * LONGEST_LINE))
    with pytest.raises(CorpusError, match=r"x\.txt:2: .*1,048,576 bytes"):
        list(read_lines(endless))
    at_once = write(tmp_path, "y.txt", b"x" * (LONGEST_LINE + 1) + b"\nshort\n")
    with pytest.raises(CorpusError, match=r"y\.txt:1: .*1,048,576 bytes"):
        list(read_lines(at_once))


def test_what_is_read_from_disk_is_told(tmp_path):
    path = write(tmp_path, "x.gz", b"some text\n" * 1000)
    heard = []
    list(read_lines(path, heard.append))
    assert sum(heard) == path.stat().st_size


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
def test_text_that_expands_much_comes_in_small_chunks(tmp_path, name):
    path = write(tmp_path, name, bytes(20 * lines.CHUNK))
    sizes = [len(chunk) for chunk in read_chunks(path)]
    assert sum(sizes) == 20 * lines.CHUNK
    assert max(sizes) <= lines.CHUNK
