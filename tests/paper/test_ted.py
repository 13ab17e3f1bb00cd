from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from evenglot.corpus.read import CorpusError
from evenglot.paper.ted import DIVERSE, RELATED, TED_FILES, Talks, ted
from tests.paper.downloads import HELD_OUT, foreign, ted_archive, ted_folders
from tests.paper.layouts import bytes_of, lines_of

# The format of the real files, sentences of our own.
HEADER = ["talk_name", "en", "pt-br", "pt", "tr", "az"]
TRAIN = [
    ["owls", "Owls hunt at night .", "Corujas caçam à noite .", "__NULL__", "Baykuşlar gece avlanır .", "__NULL__"],
    ["owls", "They say &quot; hoo &quot; .", "Elas dizem &quot; hu &quot; .", "x", '" Hu " derler .', "Onlar deyir ."],
    ["owls", "One\u2028line .", "Uma\u2028linha .", "__NULL__", "_ _ NULL _ _", "  "],
    ["bees", "__NULL__", "Abelhas dançam .", "x", "Arılar dans eder .", "Arılar rəqs edir ."],
    ["bees", "Bees dance .", "As _ _ NULL _ _ dançam .", "x", "Arılar dans eder .", ""],
    ["bees", "Bees dance .", "Abelhas dançam .", "x", "Arılar dans eder .", "Arılar rəqs edir ."],
]
LANGUAGES = {"tur": Talks("tr", 4), "aze": Talks("az", 2)}


def tsv(rows: Iterable[list[str]], end: str = "\n") -> bytes:
    return "".join("\t".join(row) + end for row in [HEADER, *rows]).encode()


def download(folder: Path, train: bytes | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for name, split in TED_FILES.items():
        rows = TRAIN[:2] if split == "test" else TRAIN[1:3]
        (folder / name).write_bytes(train or tsv(TRAIN) if split == "train" else tsv(rows))
    return folder


def archive(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def members(folder: Path) -> list[tuple[str, bytes]]:
    return [(name, (folder / name).read_bytes()) for name in TED_FILES]


def test_pairs_with_both_sides_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = ted(download(tmp_path / "talks"), out, LANGUAGES)
    assert lines_of(out, "train", "tur") == (
        ["Baykuşlar gece avlanır .", '" Hu " derler .', "Arılar dans eder .", "Arılar dans eder ."],
        ["Owls hunt at night .", 'They say " hoo " .', "Bees dance .", "Bees dance ."],
    )
    assert lines_of(out, "train", "aze") == (
        ["Onlar deyir .", "Arılar rəqs edir ."],
        ['They say " hoo " .', "Bees dance ."],
    )
    assert manifest["languages"]["tur"]["train"] == {"pairs": 4, "removed": {"missing": 2}}
    assert manifest["languages"]["aze"]["train"] == {"pairs": 2, "removed": {"empty": 2, "missing": 2}}
    assert manifest["languages"]["aze"]["valid"] == {"pairs": 1, "removed": {"empty": 1}}
    assert manifest["languages"]["tur"]["test"] == {"pairs": 2, "removed": {}}
    assert len(manifest["inputs"]) == 3
    assert manifest["warnings"] == []


def test_line_separators_do_not_end_a_line_and_marks_inside_a_sentence_count(tmp_path: Path) -> None:
    ted(download(tmp_path / "talks"), tmp_path / "out", {"por": RELATED["por"]})
    source, target = lines_of(tmp_path / "out", "train", "por")
    assert source == ["Corujas caçam à noite .", 'Elas dizem " hu " .', "Uma\u2028linha .", "Abelhas dançam ."]
    assert target[2] == "One\u2028line ."


def test_crlf_byte_order_mark_and_a_missing_last_line_end_change_nothing(tmp_path: Path) -> None:
    ted(download(tmp_path / "talks"), tmp_path / "plain", LANGUAGES)
    odd = b"\xef\xbb\xbf" + tsv(TRAIN, end="\r\n").removesuffix(b"\r\n")
    ted(download(tmp_path / "talks", odd), tmp_path / "odd", LANGUAGES)
    for language in LANGUAGES:
        assert lines_of(tmp_path / "odd", "train", language) == lines_of(tmp_path / "plain", "train", language)


def test_quotation_marks_do_not_quote(tmp_path: Path) -> None:
    rows = [["owls", '" Who ?', "x", "x", '" Kim ?', "x"], ["owls", 'Me . "', "x", "x", 'Ben . "', "x"]]
    ted(download(tmp_path / "talks", tsv(rows)), tmp_path / "out", LANGUAGES)
    assert lines_of(tmp_path / "out", "train", "tur") == (['" Kim ?', 'Ben . "'], ['" Who ?', 'Me . "'])


def test_the_archive_gives_the_same_as_its_files_and_the_same_twice(tmp_path: Path) -> None:
    folder = download(tmp_path / "talks")
    ted(folder, tmp_path / "from-folder", LANGUAGES)
    packed = archive(tmp_path / "ted_talks.tar.gz", [("README", b"hello"), *members(folder)])
    first, second = tmp_path / "first", tmp_path / "second"
    ted(packed, first, LANGUAGES)
    ted(packed, second, LANGUAGES)
    assert bytes_of(first) == bytes_of(second)
    from_folder = bytes_of(tmp_path / "from-folder")
    assert all(content == from_folder[name] for name, content in bytes_of(first).items() if name != "manifest.json")


def test_wherever_an_archive_points_nothing_is_written_there(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    evil = [(f"../{name}", content) for name, content in members(download(tmp_path / "talks"))]
    evil += [("../owned.txt", b"x"), (str(tmp_path / "owned.txt"), b"x")]
    ted(archive(inner / "ted_talks.tar.gz", evil), inner / "out", LANGUAGES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner", "talks"]
    assert sorted(path.name for path in inner.iterdir()) == ["out", "ted_talks.tar.gz"]


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "ted_talks.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in TED_FILES:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
    with pytest.raises(CorpusError, match=r"ted_talks\.tar\.gz: .*all_talks_train\.tsv"):
        ted(path, tmp_path / "out", LANGUAGES)


def test_faults_of_archives_are_told_and_leave_nothing(tmp_path: Path) -> None:
    whole = members(download(tmp_path / "talks"))
    packed = archive(tmp_path / "whole.tar.gz", whole).read_bytes()
    faults = {
        "cut off": packed[: len(packed) // 2],
        "not an archive": b"<html>not found</html>",
        "incomplete": archive(tmp_path / "two.tar.gz", whole[:2]).read_bytes(),
        "doubled": archive(tmp_path / "four.tar.gz", [*whole, ("old/all_talks_dev.tsv", b"x")]).read_bytes(),
    }
    for fault, content in faults.items():
        path = tmp_path / "ted_talks.tar.gz"
        path.write_bytes(content)
        with pytest.raises(CorpusError, match=r"ted_talks\.tar\.gz: "):
            ted(path, tmp_path / "out", LANGUAGES)
        assert not list(tmp_path.glob("out*")), fault
    with pytest.raises(CorpusError, match=r"nowhere\.tar\.gz: "):
        ted(tmp_path / "nowhere.tar.gz", tmp_path / "out", LANGUAGES)


@pytest.mark.parametrize(
    ("train", "fact"),
    [
        (tsv([*TRAIN, ["bees", "Bees", "x"]]), r"all_talks_train\.tsv:8: 3 .*\b6 "),  # numbers of columns
        (tsv([["bees", "a", "b", "c", "d", "e", "f"]]), r"all_talks_train\.tsv:2: 7 .*\b6 "),
        (b"talk_name\ten\ttr\n", r"all_talks_train\.tsv:1: .*'az'.*talk_name, en, tr"),
        (tsv(TRAIN).replace("Arılar".encode(), b"Ar\xfdlar"), r"all_talks_train\.tsv:5: .*UTF-8"),
    ],
)
def test_faults_of_files_are_told_with_their_line_and_leave_nothing(tmp_path: Path, train: bytes, fact: str) -> None:
    with pytest.raises(CorpusError, match=fact):
        ted(download(tmp_path / "talks", train), tmp_path / "out", LANGUAGES)
    assert not list(tmp_path.glob("out*"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = download(tmp_path / "talks")
    (folder / "all_talks_dev.tsv").unlink()
    with pytest.raises(CorpusError, match=r"talks: .*all_talks_dev\.tsv"):
        ted(folder, tmp_path / "out", LANGUAGES)


def test_the_folders_of_the_papers_scripts_are_read_too(tmp_path: Path) -> None:
    sizes = {"aze": 5, "tur": 9}
    folder = ted_folders(tmp_path / "raw", sizes, sizes)
    aze, en = folder / "aze_en" / "train.aze", folder / "aze_en" / "train.en"
    aze.write_text(aze.read_text() + "   \nyox\n")
    en.write_text(en.read_text() + "nothing\n\n")  # pairs with an empty side
    aze.rename(aze.with_suffix(".az"))  # some have the codes of the archive
    languages = {"aze": Talks("az", 5), "tur": Talks("tr", 9)}
    manifest = ted(folder, tmp_path / "out", languages)
    assert manifest["languages"]["aze"]["train"] == {"pairs": 5, "removed": {"empty": 2}}
    assert manifest["warnings"] == []
    assert manifest["format"] == "folders"
    source, target = lines_of(tmp_path / "out", "train", "aze")
    assert source == [foreign(sentence, "aze") for sentence in target]
    assert len(lines_of(tmp_path / "out", "test", "tur")[0]) == HELD_OUT

    for name in ("tur_en/valid.tur", "tur_en/test.en"):
        (folder / name).unlink()
    with pytest.raises(CorpusError) as caught:
        ted(folder, tmp_path / "again", languages)
    assert [line.partition(": no ")[2].split(";")[0] for line in str(caught.value).splitlines()] == [
        "valid.tur",
        "test.en",
    ]
    assert not (tmp_path / "again").exists()


def test_an_archive_is_found_in_its_folder(tmp_path: Path) -> None:
    ted_archive(tmp_path / "ted_talks.tar.gz", LANGUAGES, {"tur": 9, "aze": 5})
    manifest = ted(tmp_path, tmp_path / "out", LANGUAGES)
    assert {name: splits["train"]["pairs"] for name, splits in manifest["languages"].items()} == {"tur": 9, "aze": 5}


def test_other_counts_than_in_the_paper_are_worth_a_warning(tmp_path: Path) -> None:
    manifest = ted(download(tmp_path / "talks"), tmp_path / "out", {"aze": RELATED["aze"], "tur": Talks("tr")})
    (warning,) = manifest["warnings"]
    assert warning.startswith("aze train: 2 ")
    assert "5,946" in warning


def test_each_set_has_the_eight_languages_and_about_760_thousand_pairs() -> None:
    for languages, total in ((RELATED, 760_718), (DIVERSE, 766_352)):
        assert len(languages) == 8
        assert sum(talks.pairs or 0 for talks in languages.values()) == total
