"""Checksums in JSON and of files."""

import json

import pytest

from evenglot.runs.run import RunError
from evenglot.runs.scores import read_scores_file
from evenglot.seals import checksums, refuse_changed, sealed, unsealed

CONTENT = {"a": [1, 2.5, None], "b": {"ä": "text"}}


def test_what_was_sealed_is_read_back_and_so_is_what_never_was():
    assert unsealed(json.loads(json.dumps(sealed(CONTENT)))) == CONTENT
    assert unsealed(CONTENT) == CONTENT


@pytest.mark.parametrize(
    "change", [{"a": [1, 2.6, None]}, {"b": {}}, {"c": 1}, {"checksum": "0" * 16}, {"checksum": None}]
)
def test_a_change_is_noticed(change):
    with pytest.raises(ValueError, match="changed"):
        unsealed({**sealed(CONTENT), **change})


@pytest.mark.parametrize("content", [None, [], "text", 1])
def test_what_is_no_object_is_refused(content):
    with pytest.raises(ValueError, match="object"):
        unsealed(content)


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"b\0")])
def test_changed_files_are_named(tmp_path, damage):
    (tmp_path / "one").write_bytes(b"a")
    (tmp_path / "two").write_bytes(b"bb")
    expected = checksums(tmp_path)
    refuse_changed(tmp_path, expected, "")
    damage(tmp_path / "two")
    with pytest.raises(ValueError, match=str(tmp_path / "two")):
        refuse_changed(tmp_path, expected, "")


def test_a_changed_score_is_refused_and_one_without_a_checksum_is_read(tmp_path):
    file, row = tmp_path / "scores.json", {"chrf": 31.5, "lines": 9}
    content = {"split": "test", "signature": {}, "directions": {"a-b": row}, "macro": {"chrf": 31.5}}
    content["worst"] = {"direction": "a-b", "chrf": 31.5}
    for written in (content, sealed(content)):
        file.write_text(json.dumps(written))
        assert read_scores_file(file).macro == {"chrf": 31.5}
    file.write_text(json.dumps(sealed(content)).replace("31.5", "31.6", 1))
    with pytest.raises(RunError, match=str(file)):
        read_scores_file(file)
