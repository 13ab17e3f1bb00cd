import re
from itertools import permutations

import pytest

from evenglot.config import ConfigError, DataSettings, load_config
from evenglot.directions import Direction, parse
from tests.config.files import write


def names(config):
    return [direction.name for direction in config.data.directions]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("por-en", ["por-en"]),
        ("[no-en, en-no]", ["no-en", "en-no"]),
        ("{from: [no, tur], to: en}", ["no-en", "tur-en"]),
        ("{from: en, to: [no, on, yes]}", ["en-no", "en-on", "en-yes"]),
        ("{from: [de, en, no], to: [de, en, no]}", [f"{a}-{b}" for a, b in permutations(["de", "en", "no"], 2)]),
        ("[de-fr, {from: en, to: [de, fr]}, {src: no, tgt: en}]", ["de-fr", "en-de", "en-fr", "no-en"]),
    ],
)
def test_ways_to_declare_directions(conf, declared, expected):
    text = f"data: {{directions: {declared}, train: 'x.{{pair}}.{{lang}}'}}\nvocabulary: {{kind: joint}}"
    assert names(conf.load(text)) == expected


def test_labels_and_paths_of_their_own(conf):
    def paths(config, direction, split):
        (files,) = config.data.files(direction, split)
        return [str(file.path).removeprefix(f"{conf.folder}/") for file in files]

    config = conf.load("""
        data:
          directions:
          - {from: [por, glg], to: en, label: romance}
          - {src: tur, tgt: en, label: turkic, train: "mine/{lang}.txt", valid: [a.txt, /b.txt]}
          train: train.{pair}.{lang}.gz
          grouping: label
    """)
    por, _, tur = config.data.directions
    assert por == Direction("por", "en", "romance")
    assert config.data.groups == {"por-en": "romance", "glg-en": "romance", "tur-en": "turkic"}
    assert paths(config, por, "train") == ["train.por-en.por.gz", "train.por-en.en.gz"]
    assert paths(config, tur, "train") == ["mine/tur.txt", "mine/en.txt"]
    assert config.data.files(por, "valid") is None
    assert paths(config, tur, "valid") == ["a.txt", "/b.txt"]
    with pytest.raises(ValueError, match="^en-por "):
        config.data.files(parse("en-por"), "train")


def test_only_directions_with_text_if_so_declared(conf):
    for name in ("train.no-en", "train.tur-en", "valid.no-en"):
        for language in name.partition(".")[2].split("-"):
            (conf.folder / f"{name}.{language}").write_text("x\n")
    text = """
        data:
          directions: {from: [no, tur, en], to: [no, tur, en], existing: true}
          train: train.{pair}.{lang}
          valid: valid.{pair}.{lang}
        vocabulary: {kind: joint}
    """
    config = conf.load(text, check_files=True)
    assert names(config) == ["no-en", "tur-en", "en-no", "en-tur"]
    with_valid = [d.name for d in config.data.directions if config.data.files(d, "valid") is not None]
    assert with_valid == ["no-en", "en-no"]
    (conf.folder / "train.tur-no.tur").write_text("x\n")  # a side alone is no text
    saved = config.to_yaml()
    for side in ("tur", "no"):
        (conf.folder / f"train.tur-no.{side}").write_text("x\n")
    assert names(conf.load(saved, check_files=True)) == names(config)  # text that came later is no part of the run
    assert len(names(conf.load(text, check_files=True))) == 6
    (error,) = conf.errors(text.replace("train.{pair}", "nowhere.{pair}"), check_files=True)
    assert error.startswith("conf.yaml:3: data.directions")


def test_a_language_without_any_text_is_not_left_out_silently(conf):
    for language in ("no", "en"):
        (conf.folder / f"train.no-en.{language}").write_text("x\n")
    (error,) = conf.errors(
        """
        data:
          directions: {from: [no, tur, en], to: [no, tur, en], existing: true}
          train: train.{pair}.{lang}
        vocabulary: {kind: joint}
        """,
        check_files=True,
    )
    assert error.startswith("conf.yaml:3: data.directions")
    assert "with tur;" in error


def test_bad_codes(conf):
    errors = conf.errors("""\
        data:
          directions:
          - pt-BR-en
          - {from: [zh-Hans, 12, tur], to: en}
          - {src: no, tgt: no}
          - {src: tur}
          - [por, en]
          - {from: [], to: en}
          train: x.{lang}
    """)
    expected = [
        ("conf.yaml:3: data.directions[0]: ", "'pt_BR-en'"),
        ("conf.yaml:4: data.directions[1].from[0]: ", "'zh_Hans'"),
        ("conf.yaml:4: data.directions[1].from[1]: ", "12"),
        ("conf.yaml:5: data.directions[2]: ", "'no'"),
        ("conf.yaml:6: data.directions[3].tgt: ", ""),
        ("conf.yaml:7: data.directions[4]: ", "['por', 'en']"),
        ("conf.yaml:8: data.directions[5].from: ", "[]"),
    ]
    assert len(errors) == len(expected)
    for error, (place, fact) in zip(errors, expected, strict=True):
        assert error.startswith(place)
        assert fact in error


# ------------------------------------------------------------------------------------------------------------- files


def test_files_are_found_beside_the_config(conf):
    write(conf.folder, "train.por-en.por", "train.por-en.en", "test.por-en.tsv")
    config = conf.load(
        """
        data:
          directions: [en-por, por-en]
          train: train.{pair}.{lang}
          test: test.{pair}.tsv
          columns: ["{src}", "{tgt}"]
        vocabulary: {kind: joint}
        """,
        check_files=True,
    )
    ((source, target),) = config.data.files(parse("en-por"), "train")
    assert (source.path, target.path) == (conf.folder / "train.por-en.en", conf.folder / "train.por-en.por")
    ((source, target),) = config.data.files(parse("en-por"), "test")
    assert (source.path.name, source.column, target.column) == ("test.por-en.tsv", "en", "por")


def test_large_limits_are_written_in_full(conf):
    text = "data: {directions: por-en, train: all.tsv}\nvocabulary: {size_other: 2000000}\n"
    (error,) = conf.errors(text)
    assert "1,000,000" in error


@pytest.mark.parametrize(
    "columns", ["[1]", "[0, 1]", "[1, x]", "[true, 2]", "a", "[[1], 2]", "[a, '{lang}']", "[a, '']"]
)
def test_bad_columns(conf, columns):
    (error,) = conf.errors(f"data:\n  directions: [por-en]\n  train: x.tsv\n  columns: {columns}")
    assert error.startswith("conf.yaml:4: data.columns: ")


@pytest.mark.parametrize("pattern", ["5", "[a]", "{pair}", "[a, 5]", "x.{pair}.gz", "x.{lagn}"])
def test_bad_patterns(conf, pattern):
    (error,) = conf.errors(f"data:\n  directions: [por-en]\n  train: {pattern}")
    assert error.startswith("conf.yaml:3: data.train: ")


def test_data_settings_made_in_python():
    settings = DataSettings(directions=["por-en"], train="x.{lang}")
    assert settings.directions == (parse("por-en"),)


def test_a_direction_can_do_without_a_split_that_others_have(conf):
    config = conf.load(
        """\
        data:
          directions: [por-en, {src: tur, tgt: en, test: null}]
          train: train.{pair}.{lang}
          test: test.{pair}.{lang}
        """
    )
    por, tur = config.data.directions
    assert config.data.files(por, "test") is not None
    assert config.data.files(tur, "test") is None
    again = conf.load(config.to_yaml())  # what is written beside the results says the same
    assert again.data.files(tur, "test") is None
    assert again.data.files(tur, "train") is not None


# -------------------------------------------------------------------------------------------- several files, wildcards


def paths(conf, config, split="train"):
    corpus = config.data.files(config.data.directions[0], split)
    return [tuple(str(file.path).removeprefix(f"{conf.folder}/") for file in files) for files in corpus]


def test_a_list_of_patterns_is_used_in_its_order(conf):
    write(conf.folder, "b.por", "b.en", "c.por", "c.en", "a.por-en.tsv")
    text = "data: {directions: por-en, train: ['b.{lang}', 'a.{pair}.tsv', [c.por, c.en]]}"
    config = conf.load(text, check_files=True)
    expected = [("b.por", "b.en"), ("a.por-en.tsv", "a.por-en.tsv"), ("c.por", "c.en")]
    assert paths(conf, config) == expected
    assert paths(conf, conf.load(config.to_yaml())) == expected


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        ("[a.txt, b.txt]", [("a.txt", "b.txt")]),
        ("['{src}.txt', '{tgt}.txt']", [("por.txt", "en.txt")]),
        ("['{lang}.txt', b.txt]", [("por.txt", "b.txt")]),
        ("['a.{lang}', 'b.{lang}']", [("a.por", "a.en"), ("b.por", "b.en")]),
        ("[['a.{lang}', 'b.{lang}']]", [("a.por", "b.en")]),
        ("[a.tsv, b.jsonl]", [("a.tsv", "a.tsv"), ("b.jsonl", "b.jsonl")]),
        ("['a.{lang}', b.zip]", [("a.por", "a.en"), ("b.zip", "b.zip")]),
        ("['a.{lang}']", [("a.por", "a.en")]),
        ("[a/, b/]", [("a/state.json",) * 2, ("b/state.json",) * 2]),
    ],
)
def test_two_paths_are_the_two_sides_unless_each_names_both(conf, train, expected):
    config = conf.load(f"data: {{directions: por-en, train: {train}}}")
    assert paths(conf, config) == expected
    assert paths(conf, conf.load(config.to_yaml())) == expected


def test_wildcards_pair_the_files_of_both_sides_in_order(conf):
    (conf.folder / "por-en").mkdir()
    write(conf.folder / "por-en", "b.por", "b.en", "a.1.por", "a.1.en", "a.10.por", "a.10.en", "README", ".c.por")
    (conf.folder / "por-en" / "d.por").mkdir()
    text = "data: {directions: en-por, train: '{pair}/*.{lang}'}"
    config = conf.load(text, check_files=True)
    assert paths(conf, config) == [(f"por-en/{x}.en", f"por-en/{x}.por") for x in ("a.1", "a.10", "b")]
    single = conf.load(text, "data.train='{pair}/?.{lang}'", check_files=True)
    assert paths(conf, single) == [("por-en/b.en", "por-en/b.por")]
    two = conf.load(text, "data.train=['*/?.en', '*/?.por']", check_files=True)
    assert paths(conf, two) == [("por-en/b.en", "por-en/b.por")]


def test_brackets_in_names_are_no_wildcards(conf):
    write(conf.folder, "[x] 1.por", "[x] 1.en", "x 1.por", "x 1.en")
    config = conf.load("data: {directions: por-en, train: '[x] *.{lang}'}", check_files=True)
    assert paths(conf, config) == [("[x] 1.por", "[x] 1.en")]


@pytest.mark.parametrize(
    ("train", "fact"),
    [
        ("[]", "expected a path"),
        ("[['a', 'b', 'c']]", "expected a path"),
        ("[a, b, c]", "{lang}"),
        ("[a]", "{lang}"),
        ("['*.por', 'x.en']", "same wildcards"),
        ("'**/x.{lang}'", r"\*\*"),
        ("['x.{lang}', 'x.{lang}']", "same file twice: x.por"),
        ("['x*.{lang}', 'x1.{lang}']", "same file twice: x1.por"),
        ("[x.zip, x.en]", "x.zip holds both sides"),
        ("'x.{lang}.parquet'", "both sides"),
        ("x.csv", r"{lang}.*\.tsv"),
    ],
)
def test_lists_and_wildcards_that_cannot_be_meant(conf, train, fact):
    write(conf.folder, "x1.por", "x1.en")
    (error,) = conf.errors(f"data:\n  directions: [por-en]\n  train: {train}")
    assert re.match(f"conf.yaml:3: data.train: .*{fact}", error)


def test_codes_of_files_replace_those_of_languages(conf):
    write(conf.folder, "en-pt.txt.zip", "x.en-pt.pt.gz", "x.en-pt.en.gz")
    text = "data: {directions: por-en, train: '{pair}.txt.zip', test: 'x.{pair}.{lang}.gz', file_codes: {por: pt}}"
    config = conf.load(text, check_files=True)
    (files,) = config.data.files(parse("por-en"), "train")
    assert [(file.path.name, file.column) for file in files] == [("en-pt.txt.zip", "pt"), ("en-pt.txt.zip", "en")]
    assert paths(conf, config, "test") == [("x.en-pt.pt.gz", "x.en-pt.en.gz")]
    for bad in ("{por: ''}", "{por: 'a/b'}", "{por: '*'}", "{p-t: pt}", "{por: 5}"):
        (error,) = conf.errors(text, f"data.file_codes={bad}")
        assert error.startswith("--set data.file_codes")


def test_the_earlier_name_of_columns_still_works(conf):
    text = "data: {directions: por-en, train: x.tsv, %s: [2, 1]}"
    assert conf.load(text % "tsv_columns").data == conf.load(text % "columns").data


def test_a_folder_whose_name_has_a_meaning_in_paths(conf):
    folder = conf.folder / "a*b"
    folder.mkdir()
    (folder / "conf.yaml").write_text("data: {directions: por-en, train: 'x.{lang}'}")
    with pytest.raises(ConfigError, match=r"a\*b: .*rename"):
        load_config(folder / "conf.yaml", check_files=False)
