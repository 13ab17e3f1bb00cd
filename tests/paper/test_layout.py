from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenglot.corpus.read import CorpusError
from evenglot.files import sha256
from evenglot.paper.layout import create
from tests.paper.layouts import bytes_of, lines_of

ABOUT = {"recipe": "test"}


def write(out: Path, *, overwrite: bool = False, word: str = "kedi") -> None:
    with create(out, ABOUT, overwrite) as layout, layout.writer("train", "tur") as writer:
        writer.write(word, "cat")
        writer.write("köpek", "dog")
        writer.removed["empty"] += 3


def test_a_folder_has_both_sides_and_a_manifest_that_tells_all(tmp_path: Path) -> None:
    write(tmp_path / "new" / "corpus")
    folder = tmp_path / "new" / "corpus"
    assert lines_of(folder, "train", "tur") == (["kedi", "köpek"], ["cat", "dog"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["recipe"] == "test"
    assert manifest["languages"] == {"tur": {"train": {"pairs": 2, "removed": {"empty": 3}}}}
    names = ["train.tur-en.en.gz", "train.tur-en.tur.gz"]
    assert manifest["outputs"] == {name: sha256(folder / name) for name in names}
    assert sorted(file.name for file in folder.iterdir()) == ["manifest.json", *names]


def test_equal_text_gives_equal_bytes(tmp_path: Path) -> None:
    write(tmp_path / "one")
    write(tmp_path / "another")
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "another")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_after_an_error_nothing_remains(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with create(tmp_path / "corpus", ABOUT) as layout, layout.writer("train", "tur") as writer:
            writer.write("kedi", "cat")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path) -> None:
    rest = tmp_path / "corpus.unfinished"
    rest.mkdir()
    (rest / "train.aze-en.aze.gz").write_bytes(b"half")
    write(tmp_path / "corpus")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    assert "train.aze-en.aze.gz" not in bytes_of(tmp_path / "corpus")


def test_a_folder_is_replaced_only_on_request_and_only_if_a_recipe_wrote_it(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    out.mkdir()
    write(out)  # an empty folder may be used
    before = bytes_of(out)
    with pytest.raises(CorpusError, match=f"^{out}: .*overwrite"):
        write(out, word="pisi")
    assert bytes_of(out) == before
    write(out, word="pisi", overwrite=True)
    assert lines_of(out, "train", "tur")[0] == ["pisi", "köpek"]

    home = tmp_path / "home"
    home.mkdir()
    (home / "diary.txt").write_text("dear")
    with pytest.raises(CorpusError, match=f"^{home}: "):
        write(home, overwrite=True)
    assert bytes_of(home) == {"diary.txt": b"dear"}

    (out / "results").mkdir()  # of a grid in that folder
    with pytest.raises(CorpusError, match=f"^{out}: .*results"):
        write(out, overwrite=True)
    assert (out / "results").is_dir()


def test_held_out_sets_of_the_other_direction_and_other_files_have_their_place(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    with create(out, ABOUT, files={"conf.yaml": "seed: 1\n"}) as layout:
        with layout.writer("test_from_english", "tur") as writer:
            writer.write("kedi", "cat")
        layout.expect("tur", "test_from_english", 1, "")
        layout.expect("tur", "test_from_english", 3000, "were published")
    assert {path.name for path in out.glob("*.gz")} == {"test.en-tur.tur.gz", "test.en-tur.en.gz"}
    assert (out / "conf.yaml").read_text() == "seed: 1\n"
    manifest = json.loads((out / "manifest.json").read_text())
    assert "conf.yaml" in manifest["outputs"]
    (warning,) = manifest["warnings"]
    assert "3,000" in warning


def test_a_failed_replacement_leaves_the_old_folder(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    write(out)
    before = bytes_of(out)
    with pytest.raises(ValueError, match=r"'\.\./tur'"):
        write_language(out, "../tur")
    assert bytes_of(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def write_language(out: Path, language: str) -> None:
    with create(out, ABOUT, overwrite=True) as layout, layout.writer("train", language):
        pass


def test_a_split_without_pairs_is_worth_a_warning(tmp_path: Path) -> None:
    write_language(tmp_path / "corpus", "tur")
    manifest = json.loads((tmp_path / "corpus" / "manifest.json").read_text())
    (warning,) = manifest["warnings"]
    assert warning.startswith("tur train: ")
