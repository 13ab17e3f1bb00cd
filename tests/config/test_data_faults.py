import re

from tests.config.files import write


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


def test_grouping_by_label_needs_labels(conf):
    text = "data: {directions: [{src: por, tgt: en, label: a}, tur-en], train: 'x.{pair}.{lang}', grouping: label}"
    (error,) = conf.errors(text)
    assert re.match(r"conf\.yaml:1: data\.directions\[1\]: tur-en .*data\.grouping", error)


def test_training_text_is_needed(conf):
    text = "data: {directions: [por-en, {src: tur, tgt: en, train: 'x.{lang}'}]}"
    (error,) = conf.errors(text)
    assert re.match(r"conf\.yaml:1: data\.train: .*por-en$", error)


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
        "valid.ces-en.tsv, valid.rus-en.tsv and 2 more; directions without such text need `valid: null`",
        "conf.yaml:8: clean.max_peices: unknown key; did you mean 'max_pieces'?",
    ]


def test_missing_folders_are_named_once(conf):
    (conf.folder / "here").mkdir()
    write(conf.folder, "here/train.por-en.por", "here/train.por-en.en")
    text = """\
        data:
          directions: {{from: [por, tur], to: en}}
          train: {0}/train.{{pair}}.{{lang}}
          valid: {0}/valid.{{pair}}.{{lang}}
    """
    (error,) = conf.errors(text.format("nowhere/deep"), check_files=True)
    assert error == "conf.yaml:3: data.train: no such folder: nowhere"
    errors = conf.errors(text.format("here"), check_files=True)
    assert [error.count("here/") for error in errors] == [2, 4]


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


def test_thousands_of_directions_take_no_time(conf):
    languages = ", ".join(f"l{chr(97 + a)}{chr(97 + b)}" for a in range(8) for b in range(5))
    (error,) = conf.errors(
        f"data: {{directions: {{from: [{languages}], to: [{languages}]}}, train: 'x.{{pair}}.{{lang}}'}}",
        "vocabulary.kind=joint",
        check_files=True,
    )
    assert error.endswith(f"and {40 * 39 - 5 + 40 * 39} more")


def test_a_file_without_a_partner_is_named(conf):
    write(conf.folder, "a.por", "a.en", "b.por", "c.en")
    (error,) = conf.errors("data: {directions: por-en, train: '*.{lang}'}", check_files=True)
    assert error == "conf.yaml:1: data.train: no such file: b.en, c.por; b.por has no partner"


def test_some_pairs_of_many_to_many_are_proposed_where_not_all_exist(conf):
    def told(directions):
        (error,) = conf.errors(f"data: {{directions: {directions}, train: 'b.{{pair}}.{{lang}}'}}", check_files=True)
        return "existing: true" in error

    many = "{from: [por, tur, en], to: [por, tur, en]}"
    assert not told(many), "there is none"
    write(conf.folder, "b.por-en.por", "b.por-en.en")
    assert told(many)
    assert not told("{from: [por, tur], to: en}"), "a path is more likely to be wrong"


def test_wildcards_without_any_file_are_an_error(conf):
    (error,) = conf.errors("data: {directions: por-en, train: ['x/*.{lang}', '*.parquet']}", check_files=True)
    assert error == "conf.yaml:1: data.train: no such folder: x; no such file: *.parquet"


def test_numbers_are_for_tables_without_names(conf):
    text = "data: {directions: por-en, train: x.tsv, valid: x.parquet}"
    (error,) = conf.errors(text, "data.columns=[1, 2]")
    assert re.match(r"--set data.columns: .*x\.parquet", error)
    assert conf.load(text, "data.columns=[pt, en]")
