"""One corpus in every form gives the same pairs and the same store; what is wrong with a form is said in a line."""

import gzip
import json
import shutil
import sys
import tracemalloc
from pathlib import Path

import datasets
import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from evenglot import yaml12
from evenglot.config import ConfigError, DataSettings, load_config
from evenglot.corpus import lines as lines_of_files
from evenglot.corpus import read, workers, zipped
from evenglot.corpus.prepare import prepare
from evenglot.corpus.read import CorpusError, paths_of, read_blocks, read_some
from evenglot.extras import MissingExtraError
from evenglot.paper.recipes import demo_corpus, recipe_config
from evenglot.preview.check import check
from evenglot.progress import Bars
from evenglot.text_file import TextFile
from tests.corpus import forms
from tests.corpus.conftest import sentences
from tests.corpus.forms import FORMS
from tests.training.commands import Command, finish

POR_EN = ("por", "en")
SOME_PAIRS = list(zip(sentences("por", 0, 40), sentences("en", 0, 40), strict=True))


def corpus_in(folder, pattern, **settings):
    """The files of por-en, for a pattern relative to a folder."""

    def inside(path):
        return f"{folder}/{path}" if isinstance(path, str) else [inside(part) for part in path]

    data = DataSettings(directions=["por-en"], train=inside(pattern), **settings)
    return data.files(data.directions[0], "train")


def pairs_of(corpus):
    """All pairs; None where one is not UTF-8."""
    found = []
    for block in read_blocks(corpus):
        sources, targets, invalid = block.sentences()
        pairs = zip(sources, targets, range(block.count), strict=True)
        found += [None if position in invalid else (source, target) for source, target, position in pairs]
    return found


# ---------------------------------------------------------------------------------------------------------- the law

SENTENCES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\t\ufeff"), max_size=12)


@settings(max_examples=30)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), max_size=20), st.integers(1, 9), st.integers(1, 50), st.data())
def test_a_corpus_is_the_same_in_every_form(tmp_path_factory, pairs, most, chunk, data):
    folder = tmp_path_factory.mktemp("forms")
    wanted = np.array(sorted(data.draw(st.sets(st.integers(0, len(pairs) - 1)))) if pairs else [], dtype=np.int64)
    stripped = [(source.strip(), target.strip()) for source, target in pairs]
    with pytest.MonkeyPatch.context() as patch:
        for module in (read, lines_of_files):
            patch.setattr(module, "CHUNK", chunk)
        patch.setattr(read, "BLOCK_LINES", most)
        for name, form in FORMS.items():
            (folder / name).mkdir()
            corpus = corpus_in(folder / name, form(folder / name, "x", POR_EN, pairs))
            blocks = list(read_blocks(corpus))
            assert pairs_of(corpus) == stripped, name
            assert [block.first for block in blocks] == [sum(b.count for b in blocks[:i]) for i in range(len(blocks))]
            for side in (0, 1):
                some = list(read_some([sides[side] for sides in corpus], wanted))
                assert some == [stripped[position][side] for position in wanted], name


def in_form(corpus, name, out):
    """The configuration of a corpus, with its text in another form, in another folder."""
    out.mkdir()
    given = load_config(corpus / "conf.yaml")
    patterns = {}
    for direction in given.data.directions:
        for split in ("train", "valid", "test"):
            stem = f"{split}.{direction.name}"
            pairs = pairs_of(given.data.files(direction, split))
            pattern = FORMS[name](out, stem, (direction.src, direction.tgt), pairs)
            patterns[split] = json.loads(json.dumps(pattern).replace(direction.name, "{pair}"))
    content, _ = yaml12.parse((corpus / "conf.yaml").read_text())
    (out / "conf.yaml").write_text(json.dumps({**content, "data": {**content["data"], **patterns}}))
    return out / "conf.yaml"


@pytest.mark.parametrize("name", [name for name in FORMS if name != "gz"])
def test_every_form_makes_the_same_store_and_table(configure, corpus, tmp_path, name):
    path = in_form(corpus, name, tmp_path / "other")
    config = load_config(path, ["store.folder=store"])
    assert check(config, Bars()) == check(configure(), Bars())
    assert prepare(config, Bars()).fingerprint == prepare(configure(), Bars()).fingerprint


@pytest.mark.parametrize("name", ["several", "nested_jsonl"])
def test_several_processes_make_the_same_store(configure, corpus, tmp_path, monkeypatch, name):
    expected = prepare(configure(), Bars()).fingerprint
    path = in_form(corpus, name, tmp_path / "other")
    monkeypatch.setattr(workers, "WORTHWHILE", 0)
    monkeypatch.setattr(read, "BLOCK_LINES", 17)
    assert prepare(load_config(path, ["store.threads=2"]), Bars()).fingerprint == expected


@pytest.mark.parametrize("name", list(FORMS))
def test_a_change_of_any_file_is_noticed(corpus, tmp_path, name):
    config = load_config(in_form(corpus, name, tmp_path / "other"), ["data.directions=[glg-en]"])
    before = prepare(config, Bars()).fingerprint
    pairs = list(zip(sentences("glg", 0, 40), sentences("en", 0, 40), strict=True))
    path = paths_of(config.data.files(config.data.directions[0], "train"))[-1]
    kept = path.stat()
    FORMS[name](tmp_path / "other", "train.glg-en", ("glg", "en"), [*pairs[:-1], ("outro", "another")])
    assert path.stat() != kept
    assert prepare(config, Bars()).fingerprint != before


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FORMS))
def test_the_demo_corpus_in_every_form_is_checked_prepared_and_trained_on(tmp_path, name):
    text = recipe_config("tiny-webui").read_text().replace("../data/tiny_webui", str(demo_corpus()))
    (tmp_path / "conf.yaml").write_text(text)
    path = in_form(tmp_path, name, tmp_path / "other")
    short = ("--set", "train.updates=2", "--set", "train.validate_every=2", "--set", "train.warmup=1")
    store = ("--set", f"store.folder={tmp_path / 'other' / 'store'}")
    for words in (
        ("check", path),
        ("prepare", path, *store),
        ("train", path, *store, *short, "--out", tmp_path / "run"),
    ):
        finish(*words, output=tmp_path / "output")
    given = prepare(load_config(tmp_path / "conf.yaml", [f"store.folder={tmp_path / 'given'}"]), Bars())
    made = prepare(load_config(path, [f"store.folder={tmp_path / 'other' / 'store'}"]), Bars())
    assert made.fingerprint == given.fingerprint


# ------------------------------------------------------------------------------------------- what others have written


def test_a_dataset_that_hugging_face_saved_is_read(tmp_path):
    datasets.disable_progress_bars()
    languages = datasets.Features(translation=datasets.Translation(languages=["en", "por"]))
    rows = [{"translation": {"por": source, "en": target}} for source, target in SOME_PAIRS]
    whole = datasets.Dataset.from_list(rows, features=languages)
    datasets.DatasetDict(train=whole, validation=whole.shuffle(seed=1)).save_to_disk(
        tmp_path / "saved", num_shards={"train": 3, "validation": 1}
    )
    assert pairs_of(corpus_in(tmp_path, "saved/train/")) == SOME_PAIRS
    shuffled = [(row["translation"]["por"], row["translation"]["en"]) for row in whole.shuffle(seed=1)]
    assert pairs_of(corpus_in(tmp_path, "saved/validation/")) == shuffled
    with pytest.raises(ConfigError, match="saved/state.json; the folder holds train and validation"):
        load_with(tmp_path, "saved/")
    whole.to_parquet(tmp_path / "x.parquet")
    whole.to_json(tmp_path / "x.jsonl.gz", compression="gzip")
    assert pairs_of(corpus_in(tmp_path, "x.parquet")) == pairs_of(corpus_in(tmp_path, "x.jsonl.gz")) == SOME_PAIRS


def load_with(folder, pattern, *overrides):
    (folder / "conf.yaml").write_text(f"data: {{directions: [por-en], train: {json.dumps(pattern)}}}\n")
    return load_config(folder / "conf.yaml", overrides)


def test_line_breaks_in_cells_become_spaces(tmp_path):
    pairs = [("uma\ncasa", "a\r\nhouse"), ("\n", "\n\n")]
    for form in (forms.jsonl, forms.nested_parquet, forms.dataset, forms.arrow):
        pattern = form(tmp_path, form.__name__, POR_EN, pairs)
        assert pairs_of(corpus_in(tmp_path, pattern)) == [("uma casa", "a\r house"), ("", "")]


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_every_kind_of_text_column_is_read(tmp_path, kind):
    kind = getattr(pyarrow, kind)()
    table = forms.table(POR_EN, SOME_PAIRS).cast(pyarrow.schema([("por", kind), ("en", kind)]))
    with ipc.new_stream(tmp_path / "x.arrow", table.schema) as stream:
        stream.write_table(table)
    assert pairs_of(corpus_in(tmp_path, "x.arrow")) == SOME_PAIRS


def test_languages_can_have_other_codes_in_files_columns_and_zips(tmp_path):
    short = [SOME_PAIRS[0][::-1]]
    forms.opus_zip(tmp_path, "en-pt", ("en", "pt"), short)
    forms.nested_parquet(tmp_path, "en-pt", ("en", "pt"), short)
    for pattern in ("{pair}.txt.zip", "{pair}.parquet", "{tgt}-{src}.txt.zip"):
        assert pairs_of(corpus_in(tmp_path, pattern, file_codes={"por": "pt"})) == SOME_PAIRS[:1]
    forms.pack(tmp_path / "x.zip", {"a.source": b"um\n", "b/a.target": b"one\n"})
    assert pairs_of(corpus_in(tmp_path, "x.zip", columns=["source", "target"])) == [("um", "one")]
    (tmp_path / "x.jsonl").write_text('{"text": {"pt": "um", "en": "one"}}\n')
    found = corpus_in(tmp_path, "x.jsonl", columns=["text.{src}", "text.{tgt}"], file_codes={"por": "pt"})
    assert pairs_of(found) == [("um", "one")]


@pytest.mark.parametrize("name", [name for name in FORMS if name not in ("wildcards", "several")])
def test_progress_ends_where_the_files_end(tmp_path, name):
    pairs = SOME_PAIRS * 400
    corpus = corpus_in(tmp_path, FORMS[name](tmp_path, "x", POR_EN, pairs))
    heard = []
    list(read_blocks(corpus, heard.append))
    size = sum(path.stat().st_size for path in paths_of(corpus))
    assert 0.9 * size < sum(heard) < 1.1 * size + 4096  # a zip has a table of contents, read for each side
    assert all(amount >= 0 for amount in heard)


# ------------------------------------------------------------------------------------------------------- bad input


def bad_jsonl(folder, line):
    lines = [*(json.dumps({"por": "um", "en": "one"}).encode() for _ in range(3)), line]
    (folder / "x.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return "x.jsonl"


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (b"", "JSON"),
        (b'{"por": "um", "en": "one"', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'["um", "one"]', "list"),
        (b'{"por": "um", "e": "one"}', "'en'.*'por', 'e'"),
        (b'{"por": "um", "translation": {"pt": "um"}}', "'en'.*'translation.pt'"),
        (b'{"por": "um", "en": null}', "null"),
        (b'{"por": "um", "en": 1}', "number"),
        (b'{"por": "um", "en": ["one"]}', "list"),
        (b'{"por": "um", "en": "\xff"}', "UTF-8"),
        (b'{"por": "um", "en": "\\ud800"}', "UTF-8"),
        (b'"' + b"x" * (1 << 20) + b'"', "1,048,576"),
    ],
)
def test_bad_jsonl_is_refused_with_its_line(tmp_path, line, fact):
    with pytest.raises(CorpusError, match=rf"x\.jsonl:4: .*{fact}"):
        read_or_refuse(corpus_in(tmp_path, bad_jsonl(tmp_path, line)))


def read_or_refuse(corpus):
    """All pairs; text that is not UTF-8 is an error."""
    for block in read_blocks(corpus):
        *_, invalid = block.sentences()
        if invalid:
            raise block.invalid(invalid[0], "do this")


def test_json_that_is_not_utf8_can_be_dropped(tmp_path):
    corpus = corpus_in(tmp_path, bad_jsonl(tmp_path, b'{"por": "um", "en": "\xff"}'))
    assert pairs_of(corpus) == [("um", "one")] * 3 + [None]


def columnar(folder, content, kind):
    if kind == "parquet":
        parquet.write_table(content, folder / "x.parquet", row_group_size=2)
        return "x.parquet"
    (folder / "x").mkdir()
    with ipc.new_stream(folder / "x" / "a.arrow", content.schema) as stream:
        stream.write_table(content, max_chunksize=2)
    (folder / "x" / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')
    return "x/"


BINARY = pyarrow.array([b"one"] * 3 + [b"\xff"], pyarrow.binary())


@pytest.mark.parametrize("kind", ["parquet", "dataset"])
@pytest.mark.parametrize(
    ("english", "message"),
    [
        (pyarrow.array(["one", "one", "one", None]), r"x(\.parquet)?:4: .*null"),
        (pyarrow.array([{"pt": "um"}] * 4), r"x/?.*: no column 'en'; there is 'por', 'en.pt'"),
        (pyarrow.array([1, 2, 3, 4]), r"x.*: column 'en' is of type int64"),
        (pyarrow.array([["one"]] * 4), r"x.*: column 'en' is of type list"),
        (pyarrow.nulls(4), r"x.*: column 'en' is of type null"),
        (BINARY.view(pyarrow.string()), r"x(\.parquet)?:4: not UTF-8"),
        (pyarrow.array(["one"] * 3 + ["x" * (1 << 20 | 1)]), r"x(\.parquet)?:4: .*1,048,576"),
    ],
)
def test_bad_columns_are_refused_with_the_row(tmp_path, kind, english, message):
    content = pyarrow.table({"por": ["um"] * 4, "en": english})
    if pyarrow.types.is_struct(english.type):
        message = r"column 'en' is of type struct"
    with pytest.raises(CorpusError, match=message):
        read_or_refuse(corpus_in(tmp_path, columnar(tmp_path, content, kind)))


@pytest.mark.parametrize("kind", ["parquet", "dataset"])
def test_a_missing_column_is_named_with_those_there_are(tmp_path, kind):
    content = forms.nested_table(("pt", "en"), SOME_PAIRS)
    with pytest.raises(CorpusError, match=r"no column 'por'; there is 'id', 'translation\.en', 'translation\.pt'"):
        read_or_refuse(corpus_in(tmp_path, columnar(tmp_path, content, kind)))


@pytest.mark.parametrize("kind", ["parquet", "dataset"])
def test_two_columns_of_one_name_are_refused(tmp_path, kind):
    content = pyarrow.table([["um"], ["dois"], ["one"]], names=["por", "por", "en"])
    with pytest.raises(CorpusError, match=r"2 columns are called 'por'"):
        read_or_refuse(corpus_in(tmp_path, columnar(tmp_path, content, kind)))


@pytest.mark.parametrize(
    "state", ["", "[]", "{}", '{"_data_files": 5}', '{"_data_files": [{"filename": "../y"}]}', '{"_data_files": ["a"]}']
)
def test_a_damaged_dataset_folder_is_refused(tmp_path, state):
    columnar(tmp_path, forms.table(POR_EN, SOME_PAIRS), "dataset")
    (tmp_path / "y").touch()
    (tmp_path / "x" / "state.json").write_text(state)
    with pytest.raises(CorpusError, match=r"x/state\.json: "):
        read_or_refuse(corpus_in(tmp_path, "x/"))


def test_a_dataset_without_one_of_its_files_is_refused(tmp_path):
    columnar(tmp_path, forms.table(POR_EN, SOME_PAIRS), "dataset")
    (tmp_path / "x" / "a.arrow").unlink()
    with pytest.raises(CorpusError, match=r"x/a\.arrow: no such file"):
        read_or_refuse(corpus_in(tmp_path, "x/"))


def zip_of(folder, members):
    forms.pack(folder / "x.zip", members)
    return corpus_in(folder, "x.zip")


GOOD = {"OPUS.en-por.por": b"um\ndois\n", "OPUS.en-por.en": b"one\ntwo\n"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, r"x\.zip: no file that ends in \.por"),
        ({"a.pt": b"um\n", "a.en": b"one\n"}, r"x\.zip: no file that ends in \.por.*'a\.pt', 'a\.en'.*codes"),
        ({**GOOD, "b.en": b""}, r"x\.zip: 2 files that end in \.en.*'OPUS\.en-por\.en', 'b\.en'"),
        ({**GOOD, "OPUS.en-por.en": b"one\n"}, r"x\.zip/\*\.por has 2 lines, .*x\.zip/\*\.en has 1"),
        ({**GOOD, "OPUS.en-por.por": b"um\n\xff\n"}, r"x\.zip/\*\.por:2: not UTF-8"),
        ({**GOOD, "OPUS.en-por.por": b"x" * (1 << 21)}, r"x\.zip/\*\.por:1: .*1,048,576"),
        ({**GOOD, "OPUS.en-por.por": b"\n" * (1 << 25)}, r"x\.zip/\*\.por: .*33,554,432"),
    ],
)
def test_bad_zips_are_refused(tmp_path, members, message):
    with pytest.raises(CorpusError, match=message):
        read_or_refuse(zip_of(tmp_path, members))


def test_encrypted_and_unusually_compressed_zips_are_refused(tmp_path):
    corpus = zip_of(tmp_path, GOOD)
    path = tmp_path / "x.zip"
    content = path.read_bytes()
    entry = content.index(b"PK\x01\x02")  # in the table of contents, where the flags are at 8 and the method at 10
    for offset, value, message in ((8, 1, "encrypted"), (10, 14, "method 14"), (10, 99, "method 99")):
        changed = bytearray(content)
        changed[entry + offset] = value
        path.write_bytes(changed)
        with pytest.raises(CorpusError, match=rf"x\.zip/\*\.por: .*{message}"):
            read_or_refuse(corpus)


def test_a_zip_is_read_without_unpacking_it(tmp_path, monkeypatch):
    target = tmp_path / "target.en"
    corpus = zip_of(tmp_path, {"../../a.por": b"um\n", str(target): b"one\n", "a.en/": b""})
    before = sorted(tmp_path.rglob("*"))
    assert pairs_of(corpus) == [("um", "one")]
    assert sorted(tmp_path.rglob("*")) == before


def test_memory_for_a_zip_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(zipped, "EXPANSION", 2000)
    line = b"x" * 99 + b"\n"
    corpus = zip_of(tmp_path, {"a.por": line * 500_000, "a.en": line * 500_000})
    tracemalloc.start()
    try:
        assert sum(block.count for block in read_blocks(corpus)) == 500_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000  # each member has 50 MB


WHOLE = ["jsonl", "flat_parquet", "nested_parquet", "arrow", "dataset", "opus_zip"]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.98])
def test_a_truncated_file_is_refused(tmp_path, name, share):
    corpus = corpus_in(tmp_path, FORMS[name](tmp_path, "x", POR_EN, SOME_PAIRS))
    path = paths_of(corpus)[-1]
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    if name == "jsonl" and share == 0:  # an empty corpus, which `check` and `prepare` refuse
        assert pairs_of(corpus) == []
        return
    with pytest.raises(CorpusError, match=str(tmp_path)):
        read_or_refuse(corpus)


def test_an_arrow_stream_that_ends_between_two_batches_is_refused(tmp_path):
    corpus = corpus_in(tmp_path, forms.dataset(tmp_path, "x", POR_EN, SOME_PAIRS))
    path = paths_of(corpus)[-1]
    path.write_bytes(path.read_bytes()[:-8])
    assert ipc.open_stream(path).read_all().num_rows == 20  # pyarrow does not mind
    with pytest.raises(CorpusError, match="end of the stream"):
        read_or_refuse(corpus)


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_damaged_file_is_read_or_refused_in_a_line(tmp_path, name, changes):
    corpus = corpus_in(tmp_path, FORMS[name](tmp_path, "x", POR_EN, SOME_PAIRS))
    path = paths_of(corpus)[-1]
    content = bytearray(path.read_bytes())
    for share, value in changes:
        content[int(share * len(content))] = value
    path.write_bytes(content)
    said = refusal(lambda: read_or_refuse(corpus))
    assert said is None or ("\n" not in said and str(tmp_path) in said)


def refusal(act):
    """What is said against the text; None if it can be read. Any other error is a defect."""
    try:
        act()
    except CorpusError as error:
        return str(error)
    return None


def damaged(corpus, name, out):
    """A configuration whose last training corpus is cut in half."""
    path = in_form(corpus, name, out)
    config = load_config(path)
    text = paths_of(config.data.files(config.data.directions[-1], "train"))[-1]
    text.write_bytes(text.read_bytes()[: text.stat().st_size // 2])
    return path


@pytest.mark.parametrize("name", WHOLE)
def test_bad_files_leave_no_store(corpus, tmp_path, name):
    config = load_config(damaged(corpus, name, tmp_path / "other"))
    with pytest.raises(CorpusError, match=r"train\.glg-en"):
        prepare(config, Bars())
    assert not (tmp_path / "other" / "store").exists()


def test_bad_files_end_commands_with_one_line_and_exit_code_2(corpus, tmp_path):
    for name in ("dataset", "opus_zip"):
        conf = damaged(corpus, name, tmp_path / name)
        for command in ("check", "prepare"):
            with Command(command, conf, output=tmp_path / "output") as ended:
                assert ended.wait() == 2
            said = (tmp_path / "output").read_text()
            assert said.count("\n") == 1
            assert said.startswith("evenglot: ")
            assert "train.glg-en" in said


def test_without_pyarrow_the_command_that_installs_it_is_given(tmp_path, monkeypatch):
    forms.flat_parquet(tmp_path, "x", POR_EN, SOME_PAIRS)
    corpus = corpus_in(tmp_path, "x.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r'conf\.yaml:1: data\.train: pyarrow .*"evenglot\[parquet\]"'):
        load_with(tmp_path, "x.parquet")
    with pytest.raises(MissingExtraError, match="parquet"):
        read_or_refuse(corpus)


def test_files_with_columns_in_other_formats_are_tsv(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"um\tone\n"))
    source, target = TextFile(tmp_path / "x.gz", 0), TextFile(tmp_path / "x.gz", 1)
    assert pairs_of([(source, target)]) == [("um", "one")]


def test_a_file_that_is_gone_is_named(tmp_path):
    for name in WHOLE:
        corpus = corpus_in(tmp_path, FORMS[name](tmp_path, "x", POR_EN, SOME_PAIRS))
        path = Path(corpus[0][0].path)
        shutil.move(path, path.with_suffix(".old"))
        with pytest.raises(CorpusError, match=f"^{path}: "):
            read_or_refuse(corpus)
