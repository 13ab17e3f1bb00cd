from contextlib import contextmanager

import pytest

from evenglot.corpus import artefacts, bundle

FILES = ("a", "both")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Maker:
    """Builds parts from texts: half of the letters in one file, the whole twice in another. Keeps a record."""

    def __init__(self, texts, interrupt=None, error=KeyboardInterrupt):
        self.texts, self.interrupt, self.error, self.made = texts, interrupt, error, []

    def make(self, root):
        return bundle.make(root, "train", [f"key of {text}" for text in self.texts], FILES, self.build)

    def build(self, missing):
        for position in missing:
            yield lambda part, text=self.texts[position]: self.write(text, part)

    def write(self, text, part):
        for letter in text[::2]:
            part.append("a", letter.encode())
        if text == self.interrupt:
            raise self.error
        part.append("one", text.encode(), "both")
        part.append("two", text.encode(), "both")
        self.made.append(text)
        return {"length": len(text)}


def sections(folder, entry):
    return {
        name: (folder / file).read_bytes()[start : start + size]
        for name, (file, start, size, _) in entry["sections"].items()
    }


def test_every_part_is_found_again(tmp_path):
    texts = ["hello", "", "you"]
    folder, entries = Maker(texts).make(tmp_path)
    for text, entry in zip(texts, entries, strict=True):
        whole = {"one": text.encode(), "two": text.encode()}
        assert sections(folder, entry) == (whole | {"a": text[::2].encode()} if text else whole)
        assert entry["about"] == {"length": len(text)}
    again = Maker(texts)
    assert again.make(tmp_path) == (folder, entries)
    assert again.made == []


def test_known_parts_are_copied_from_other_bundles(tmp_path):
    Maker(["one", "two", "three"]).make(tmp_path)
    other = Maker(["three", "new", "one"])
    folder, _ = other.make(tmp_path)
    assert other.made == ["new"]
    fresh, _ = Maker(["three", "new", "one"]).make(tmp_path / "elsewhere")
    assert contents(folder) == contents(fresh)


def test_writing_goes_on_behind_the_last_complete_part(tmp_path):
    texts = ["one", "two", "three", "four"]
    for interrupt in ("two", "four"):
        with pytest.raises(KeyboardInterrupt):
            Maker(texts, interrupt).make(tmp_path)
    last = Maker(texts)
    folder, _ = last.make(tmp_path)
    assert last.made == ["four"]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert contents(folder) == contents(Maker(texts).make(tmp_path / "elsewhere")[0])


@pytest.mark.parametrize("damage", [lambda text: text[:-1], lambda text: text[:2] + b"?" + text[3:]])
@pytest.mark.parametrize("file", ["a", "journal.jsonl"])
def test_what_was_damaged_in_the_meantime_is_written_again(tmp_path, file, damage):
    texts = ["one", "two", "three"]
    with pytest.raises(KeyboardInterrupt):
        Maker(texts, "three").make(tmp_path)
    path = next(tmp_path.glob(f"train.*.begun/{file}"))
    path.write_bytes(damage(path.read_bytes()))
    folder, _ = Maker(texts).make(tmp_path)
    assert contents(folder) == contents(Maker(texts).make(tmp_path / "elsewhere")[0])


def test_bad_text_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="bad"):
        Maker(["one", "two"], "two", ValueError("bad text")).make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_after_a_full_disk_finished_parts_are_not_made_again(tmp_path):
    with pytest.raises(OSError, match="full"):
        Maker(["one", "two"], "two", OSError("disk full")).make(tmp_path)
    again = Maker(["one", "two"])
    folder, _ = again.make(tmp_path)
    assert again.made == ["two"]
    assert contents(folder) == contents(Maker(["one", "two"]).make(tmp_path / "elsewhere")[0])


def test_a_process_that_ends_while_checksums_are_taken_has_not_worked_in_vain(tmp_path, monkeypatch):
    """As if killed: what is unfinished is left as it is."""

    @contextmanager
    def killed(folder):
        unfinished = folder.with_name(folder.name + ".unfinished")
        unfinished.mkdir()
        yield unfinished
        raise AssertionError("the checksum below ends it before")

    with monkeypatch.context() as patch:
        patch.setattr(artefacts, "finished_folder", killed)
        patch.setattr(artefacts, "checksum", lambda file: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            Maker(["one", "two"]).make(tmp_path)
    again = Maker(["one", "two"])
    folder, _ = again.make(tmp_path)
    assert again.made == []
    assert contents(folder) == contents(Maker(["one", "two"]).make(tmp_path / "elsewhere")[0])


def test_facts_about_a_bundle_are_protected_by_a_checksum(tmp_path):
    folder, _ = Maker(["one", "two"]).make(tmp_path)
    meta = folder / "meta.json"
    meta.write_text(meta.read_text().replace('"length": 3', '"length": 4', 1))
    with pytest.raises(artefacts.DamagedError):
        artefacts.about(folder)
    assert not artefacts.is_intact(folder)


def test_of_a_damaged_bundle_what_is_intact_is_kept(tmp_path):
    texts = ["one", "two", "three"]
    folder, entries = Maker(texts).make(tmp_path)
    expected = contents(folder)
    content = bytearray(expected["both"])
    content[entries[1]["sections"]["two"][1]] ^= 1
    (folder / "both").write_bytes(content)
    assert not artefacts.is_intact(folder)
    again = Maker(texts)
    again.make(tmp_path)
    assert again.made == ["two"]
    assert contents(folder) == expected
