"""The manifest of WMT's files: complete, found wherever they are, and read from the right columns and sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenglot.corpus.read import CorpusError
from evenglot.paper.wmt import WMT4
from evenglot.paper.wmt_files import WMT_FILES, look_up, wmt_downloads
from tests.paper.downloads import HELD_OUT, foreign, wmt_folder
from tests.paper.layouts import lines_of

SIZES = {"deu": 30, "fra": 25, "tam": 21, "tur": 6}


def test_every_language_has_all_splits_and_a_test_set_for_each_direction() -> None:
    assert set(WMT_FILES) == set(WMT4)
    for splits in WMT_FILES.values():
        assert {"train", "valid", "test", "test_from_english"} <= set(splits)
        (there,), (back,) = splits["test"], splits["test_from_english"]
        assert "-src." in there.files[0]  # the foreign side is the source to English, the reference from English
        assert "-ref." in back.files[0]
        assert there.files[1].endswith("-ref.en.sgm")
        assert back.files[1].endswith("-src.en.sgm")


def test_the_downloads_become_a_corpus_for_both_directions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = wmt_downloads(wmt_folder(tmp_path / "downloads", SIZES), out)
    for language, size in SIZES.items():
        source, target = lines_of(out, "train", language)
        assert len(source) >= size
        assert source == [foreign(sentence, language) for sentence in target]
        assert len(lines_of(out, "test", language)[0]) == HELD_OUT
    there, back = (lines_of(out, split, "tam", pair) for split, pair in (("test", "tam-en"), ("test", "en-tam")))
    assert there != back
    assert back[0] == [foreign(sentence, "tam") for sentence in back[1]]
    assert lines_of(out, "valid", "deu")[1] == lines_of(out, "valid", "fra")[1]
    expected = {f"{language} {split}" for language, splits in WMT_FILES.items() for split in splits if split != "train"}
    assert {warning.partition(":")[0] for warning in manifest["warnings"]} == {*expected, "deu train", "fra train"}


def test_missing_files_are_listed_by_download_and_nothing_is_written(tmp_path: Path) -> None:
    folder = wmt_folder(tmp_path / "downloads", SIZES)
    gone = {path.name for path in folder.rglob("europarl-v7*")} | {"SETIMES.en-tr.tr"}
    for path in [path for path in folder.rglob("*") if path.name in gone]:
        path.unlink()
    assert {each.name for each in look_up(folder) if each.path is None} == gone
    with pytest.raises(CorpusError) as caught:
        wmt_downloads(folder, tmp_path / "out")
    *lines, summary = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(name in lines[0] for name in gone if name.startswith("europarl"))
    assert "training-parallel-europarl-v7.tgz" in lines[0]
    assert "en-tr.txt.zip" in lines[1]
    assert summary.startswith(f"{folder}: ")
    assert "5 files" in summary
    assert not (tmp_path / "out").exists()
    with pytest.raises(CorpusError, match="nowhere"):
        wmt_downloads(tmp_path / "nowhere", tmp_path / "out")


def test_names_in_folders_are_found_by_the_end_of_their_path(tmp_path: Path) -> None:
    folder = wmt_folder(tmp_path / "downloads", SIZES)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "train.ta").write_text("not this\n")
    (found,) = [each.path for each in look_up(folder) if each.name == "pib/en-ta/train.ta"]
    assert found is not None
    assert found.parts[-3:] == ("pib", "en-ta", "train.ta")
