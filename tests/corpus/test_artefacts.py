import json

import pytest

from evenglot.corpus.artefacts import DamagedError, about, is_intact, key_of, make, remove_others, verify
from evenglot.files import write_json


def build(content):
    def write(folder):
        (folder / "data").write_text(content)
        return {"length": len(content)}

    return write


def fail(folder):
    (folder / "data").write_text("half")
    raise RuntimeError("killed")


def test_it_is_made_once_and_remembers(tmp_path):
    folder = make(tmp_path, "corpus", "k1", build("text"))
    assert about(folder) == {"length": 4}
    assert make(tmp_path, "corpus", "k1", fail) == folder  # not built again
    assert make(tmp_path, "corpus", "k2", build("more")) != folder


def test_a_failed_build_leaves_nothing_and_harms_nothing(tmp_path):
    make(tmp_path, "corpus", "k1", build("text"))
    with pytest.raises(RuntimeError, match="killed"):
        make(tmp_path, "corpus", "k2", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.k1"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "data").write_text("tex"),
        lambda folder: (folder / "data").write_text("tEXT"),
        lambda folder: (folder / "data").unlink(),
        lambda folder: (folder / "meta.json").unlink(),
        lambda folder: (folder / "meta.json").write_text("{"),
        lambda folder: (folder / "meta.json").write_text("[]"),
    ],
)
def test_damage_is_noticed_and_mended(tmp_path, damage):
    folder = make(tmp_path, "corpus", "k1", build("text"))
    verify(folder)
    damage(folder)
    assert not is_intact(folder)
    with pytest.raises(DamagedError, match="evenglot prepare"):
        verify(folder)
    make(tmp_path, "corpus", "k1", build("text"))
    verify(folder)


def test_a_flipped_bit_of_the_metadata_is_noticed(tmp_path):
    folder = make(tmp_path, "corpus", "k1", build("text"))
    content = (folder / "meta.json").read_bytes()
    noticed = 0
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        (folder / "meta.json").write_bytes(flipped)
        if is_intact(folder):
            assert json.loads(flipped) == json.loads(content)  # white space only
        noticed += not is_intact(folder)
    assert noticed > 7 * len(content)


def test_leftovers_of_other_settings_and_of_killed_processes_are_removed(tmp_path):
    place = tmp_path / "train"
    old, new = (make(place, "corpus", key_of(name), build(name)) for name in ("old", "new"))
    (place / f"corpus.{key_of('next')}.unfinished").mkdir()
    mine = [place / "mine" / "meta.json", place / "notes.unfinished" / "meta.json", tmp_path / "meta.json"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    remove_others([place, tmp_path / "absent"], [new])
    assert sorted(path.name for path in place.iterdir()) == sorted([new.name, "mine", "notes.unfinished"])
    assert not old.exists()
    assert all(path.exists() for path in mine)  # what is not ours is not touched


def test_keys_depend_on_content_only():
    assert key_of({"a": 1, "b": [2, "x"]}) == key_of({"b": [2, "x"], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})


def test_json_is_replaced_whole(tmp_path):
    path = tmp_path / "manifest.json"
    write_json(path, {"a": "é"})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text("utf-8")) == {"a": "é"}
