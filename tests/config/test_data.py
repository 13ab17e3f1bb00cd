import re
from itertools import permutations

import pytest

from evenglot.config import DataSettings
from evenglot.directions import Direction, parse


def names(config):
    return [direction.name for direction in config.data.directions]


def write(folder, *files):
    for name in files:
        (folder / name).write_text("x\n")


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


def test_directions_declared_twice_are_named_with_both_places(conf):
    errors = conf.errors("""\
        data:
          directions:
          - por-en
          - tur-en
          - {from: [tur, por, aze], to: en}
          train: x.{lang}
    """)
    expected = [r"conf\.yaml:5: data\.directions\[2\]: tur-en .*conf\.yaml:4$"]
    expected += [r"conf\.yaml:5: data\.directions\[2\]: por-en .*conf\.yaml:3$"]
    assert len(errors) == 2
    assert all(re.match(*both) for both in zip(expected, errors, strict=True))


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


def test_grouping_by_label_needs_labels(conf):
    text = "data: {directions: [{src: por, tgt: en, label: a}, tur-en], train: 'x.{pair}.{lang}', grouping: label}"
    (error,) = conf.errors(text)
    assert re.match(r"conf\.yaml:1: data\.directions\[1\]: tur-en .*data\.grouping", error)


def test_training_text_is_needed(conf):
    text = "data: {directions: [por-en, {src: tur, tgt: en, train: 'x.{lang}'}]}"
    (error,) = conf.errors(text)
    assert re.match(r"conf\.yaml:1: data\.train: .*por-en$", error)


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


def test_all_missing_files_at_once(conf):
    write(conf.folder, "train.por-en.por", "train.por-en.en")
    assert conf.errors(
        """\
        data:
          directions:
          - por-en
          - {from: [aze, bel, ces, rus, tur], to: en}
          - {src: slk, tgt: en, train: "mine.{lang}"}
          train: train.{pair}.{lang}
          valid: valid.{pair}.tsv
        clean: {max_peices: 5}
        """,
        check_files=True,
    ) == [
        "conf.yaml:5: data.directions[2].train: no such file: mine.en, mine.slk",
        "conf.yaml:6: data.train: no such file: train.aze-en.aze, train.aze-en.en, train.bel-en.bel, train.bel-en.en, "
        "train.ces-en.ces and 5 more",
        "conf.yaml:7: data.valid: no such file: valid.por-en.tsv, valid.aze-en.tsv, valid.bel-en.tsv, "
        "valid.ces-en.tsv, valid.rus-en.tsv and 2 more",
        "conf.yaml:8: clean.max_peices: unknown key; did you mean 'max_pieces'?",
    ]


def test_a_corpus_stored_the_other_way_is_hinted_at(conf):
    write(conf.folder, "train.por-en.por", "train.por-en.en")
    text = "data:\n  directions: en-por\n  train: train.{src}-{tgt}.{lang}\n"
    (error,) = conf.errors(text, check_files=True)
    assert error.index("{pair}") < error.index("{src}-{tgt}")
    assert conf.load(text.replace("{src}-{tgt}", "{pair}"), check_files=True)


def test_two_directions_cannot_be_the_same_text(conf):
    text = "data: {directions: [por-en, tur-en], train: all.tsv}"
    (error,) = conf.errors(text)
    assert re.match("conf.yaml:1: data.train: por-en and tur-en .*all.tsv$", error)
    assert conf.load(text, "data.columns=['{src}', '{tgt}']")
    (error,) = conf.errors(text, "data.columns=[2, 2]")
    assert re.match("conf.yaml:1: data.train: source and target of por-en .*all.tsv$", error)


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


def test_thousands_of_directions_take_no_time(conf):
    languages = ", ".join(f"l{chr(97 + a)}{chr(97 + b)}" for a in range(8) for b in range(5))
    (error,) = conf.errors(
        f"data: {{directions: {{from: [{languages}], to: [{languages}]}}, train: 'x.{{pair}}.{{lang}}'}}",
        "vocabulary.kind=joint",
        check_files=True,
    )
    assert error.endswith(f"and {40 * 39 - 5 + 40 * 39} more")


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
