from pathlib import Path

import pytest

from evenglot.config.patterns import check_entry, entries, find, missing
from evenglot.directions import parse
from evenglot.text_file import TextFile

POR_EN, EN_POR = parse("por-en"), parse("en-por")


def touch(folder, *names):
    for name in names:
        (folder / name).touch()


def files(*paths):
    source, target = (TextFile(Path(path)) for path in paths)
    return ((source, target),)


def test_fields_are_filled():
    assert find("{src}/{tgt}/x.{lang}.gz", POR_EN) == files("por/en/x.por.gz", "por/en/x.en.gz")
    assert find(("{src}.txt", "{tgt}.{pair}.txt"), POR_EN) == files("por.txt", "en.por-en.txt")


def test_a_corpus_is_used_both_ways(tmp_path):
    touch(tmp_path, "x.por-en.por", "x.por-en.en")
    pattern = f"{tmp_path}/x.{{pair}}.{{lang}}"
    there, back = find(pattern, POR_EN), find(pattern, EN_POR)
    assert there == files(tmp_path / "x.por-en.por", tmp_path / "x.por-en.en")
    assert back == (there[0][::-1],)
    assert missing(there) == []


def test_a_corpus_of_its_own_comes_first(tmp_path):
    touch(tmp_path, "x.por-en.por", "x.por-en.en", "x.en-por.por", "x.en-por.en")
    ((source, target),) = find(f"{tmp_path}/x.{{pair}}.{{lang}}", EN_POR)
    assert (source.path.name, target.path.name) == ("x.en-por.en", "x.en-por.por")


def test_half_a_corpus_tells_which_file_is_missing(tmp_path):
    touch(tmp_path, "x.por-en.por")
    assert missing(find(f"{tmp_path}/x.{{pair}}.{{lang}}", EN_POR)) == [tmp_path / "x.por-en.en"]


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "x.por").mkdir()
    touch(tmp_path, "x.en")
    assert missing(find(f"{tmp_path}/x.{{lang}}", POR_EN)) == [tmp_path / "x.por"]


@pytest.mark.parametrize(
    ("columns", "of_por", "of_en"),
    [
        (None, 0, 1),
        ((3, 2), 2, 1),
        (("{src}", "{tgt}"), "por", "en"),
        (("source text", "target text"), "source text", "target text"),
    ],
)
def test_columns_follow_the_languages_of_a_tsv(tmp_path, columns, of_por, of_en):
    touch(tmp_path, "x.por-en.tsv.gz")
    pattern, path = f"{tmp_path}/x.{{pair}}.tsv.gz", tmp_path / "x.por-en.tsv.gz"
    assert find(pattern, POR_EN, columns) == ((TextFile(path, of_por), TextFile(path, of_en)),)
    assert find(pattern, EN_POR, columns) == ((TextFile(path, of_en), TextFile(path, of_por)),)


def test_one_tsv_with_many_languages():
    path = Path("all.tsv")
    assert find("all.tsv", EN_POR, ("{src}", "{tgt}")) == ((TextFile(path, "en"), TextFile(path, "por")),)


@pytest.mark.parametrize(
    "pattern",
    [
        "{lang}",
        "a.{lang}.gz",
        "{pair}.{lang}.zst",
        "x.tsv",
        "{src}-{tgt}.tsv.zst",
        ("a", "b"),
        "x.jsonl.gz",
        "a/state.json",
        "x.zip",
    ],
)
def test_good_patterns(pattern):
    assert entries(pattern) == (pattern,)
    check_entry(pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "nothing"),
        ("train.{pair}.gz", "{lang}.*tsv"),
        ("train.{lnag}.gz", "{lnag}.*'lang'"),
        ("train.{}.gz", "{}"),
        ("train.{lang!r}.gz", "{lang!r}"),
        ("train.{lang}.xz", r"\.xz.*\.gz.*\.zst"),
        ("train.{lang}.tsv", "both sides.*{lang}"),
        (("a.tsv", "b.tsv"), "a.tsv.*both sides"),
        (("a", ""), "nothing"),
    ],
)
def test_bad_patterns(pattern, message):
    with pytest.raises(ValueError, match=message):
        check_entry(pattern)
