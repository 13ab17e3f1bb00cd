from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from evenglot.corpus.read import CorpusError
from evenglot.paper.sgm import aligned, plain, read_segments

SOURCE = """<srcset setid="newstest2999" srclang="any">
<doc sysid="ref" docid="gazete.1" genre="news" origlang="tr">
<hl>
<seg id="1">Sayfa &amp; kapak</seg>
</hl>
<p>
<seg id="2">  &quot;Merhaba&quot;, dedi. </seg>
</p>
</doc>
<DOC docid='gazete.2' sysid='ref'>
<SEG ID=1>Bu bir
  uzun tümce.</SEG>
</DOC>
</srcset>
"""
REFERENCE = """<refset setid="newstest2999" srclang="any" trglang="en">
<doc sysid="ref" docid="gazete.2"><seg id="1">This is a long sentence.</seg></doc>
<doc sysid="ref" docid="gazete.1"><seg id="1">Page &amp; cover</seg>
<seg id="2">&quot;Hello&quot;, she said.</seg></doc>
</refset>
"""


def files(folder: Path, source: str = SOURCE, reference: str = REFERENCE) -> tuple[Path, Path]:
    paths = folder / "newstest2999-tren-src.tr.sgm", folder / "newstest2999-tren-ref.en.sgm"
    for path, text in zip(paths, (source, reference), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_segments_are_paired_by_document_and_number_in_the_order_of_the_source(tmp_path: Path) -> None:
    assert list(aligned(*files(tmp_path))) == [
        ("Sayfa & kapak", "Page & cover"),
        ('"Merhaba", dedi.', '"Hello", she said.'),
        ("Bu bir uzun tümce.", "This is a long sentence."),
    ]


def test_byte_order_mark_crlf_and_compression_change_nothing(tmp_path: Path) -> None:
    plain_file, _ = files(tmp_path)
    zipped = tmp_path / "src.tr.sgm.gz"
    zipped.write_bytes(gzip.compress(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode()))
    assert read_segments(zipped) == read_segments(plain_file)


def test_a_segment_that_one_side_lacks_is_named(tmp_path: Path) -> None:
    without = REFERENCE.replace('<seg id="2">&quot;Hello&quot;, she said.</seg>', "")
    source, reference = files(tmp_path, reference=without)
    for order in ((source, reference), (reference, source)):
        with pytest.raises(CorpusError, match=rf"^{reference}: .*\b2\b.*'gazete\.1'.*{source}"):
            list(aligned(*order))


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        (("&amp; kapak</seg>", "&amp; kapak"), r"sgm: 3 .*\b2 "),  # opening and closing tags
        (("  uzun tümce.</SEG>\n</DOC>\n</srcset>\n", ""), r"sgm: 3 .*\b2 "),
        ((SOURCE, "just text\n"), r"sgm: 0 .*\b0 "),
        (('<seg id="2">', '<seg id="1">'), r"sgm:7: .*\b1 .*'gazete\.1'"),
    ],
)
def test_damage_is_noticed(tmp_path: Path, damage: tuple[str, str], fact: str) -> None:
    source, _ = files(tmp_path, source=SOURCE.replace(*damage))
    with pytest.raises(CorpusError, match=fact):
        read_segments(source)


def test_what_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    source, _ = files(tmp_path)
    source.write_bytes(SOURCE.encode().replace("tümce".encode(), b"t\xfcmce"))
    with pytest.raises(CorpusError, match=r"src\.tr\.sgm:12: .*UTF-8"):
        read_segments(source)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("&lt;b&gt; &apos;x&apos; &#91;1&#93;", "<b> 'x' [1]"),
        ("R&D, AT&T; see ?a=1&copy=2", "R&D, AT&T; see ?a=1&copy=2"),
        ("&amp;lt;", "&lt;"),
        (" one&#10;two\tthree&NewLine;", "one two three"),
        ("line\u2028separator", "line\u2028separator"),
    ],
)
def test_plain_text_has_no_entities_and_no_line_ends(text: str, expected: str) -> None:
    assert plain(text) == expected
