import gzip
import io
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from rich.console import Console

from evenglot.config import load_config
from evenglot.corpus import make_parts, make_scans, read, workers
from evenglot.corpus.artefacts import DamagedError
from evenglot.corpus.prepare import prepare
from evenglot.corpus.prepared import open_prepared, text_has_changed
from evenglot.corpus.read import CorpusError
from evenglot.corpus.store import open_store
from evenglot.progress import Bars
from evenglot.symbols import EOS, PAD, UNK
from tests.corpus.conftest import sentences
from tests.counting import calls_of
from tests.killed import RENAMES, kill_itself_after
from tests.training.commands import Command, finish
from torture.changed_files import sealed_manifest


def files_of(folder):
    """Content and time of change of every file of a store."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def content_of(folder):
    return {name: content for name, (content, _) in files_of(folder).items() if name != "config.yaml"}


def decoded(store, direction, split, side, position):
    ids = getattr(store.corpus(direction, split), side)[position].tolist()
    return ids, store.vocabulary(side).decode([piece for piece in ids if piece not in (EOS, UNK, PAD)])


def test_every_sentence_can_be_read_back_with_tag_and_end(configure):
    store = prepare(configure(), Bars())
    assert store.sizes == {"por-en": 300, "rus-en": 120, "glg-en": 40}
    for direction, language in (("por-en", "por"), ("rus-en", "rus")):
        expected = list(sentences(language, 0, 40))
        for position in (0, 39):
            ids, text = decoded(store, direction, "train", "source", position)
            assert store.vocabulary("source").id_to_piece(ids[0]) == f">>{language}<<"
            assert ids[-1] == EOS
            assert text == expected[position]
            ids, text = decoded(store, direction, "train", "target", position)
            assert ids[-1] == EOS
            assert not any(store.vocabulary("target").is_control(piece) for piece in ids[:-1])
            assert text == list(sentences("en", 0, 40))[position]
    corpus = store.corpus("rus-en", "train")
    assert corpus.source.lengths.sum() == store.manifest["directions"]["rus-en"]["train"]["source_tokens"]
    assert isinstance(corpus.source.ids, np.memmap)
    assert corpus.source.ids.dtype == np.uint16


def test_special_pieces_have_the_same_ids_in_both_vocabularies(configure):
    store = prepare(configure(), Bars())
    for side in ("source", "target"):
        assert store.vocabulary(side).id_to_piece([EOS, UNK, PAD]) == ["</s>", "<unk>", "<pad>"]


@pytest.mark.parametrize(
    ("directions", "kind", "tags"),
    [
        ("{from: en, to: [por, rus]}", "separate", ["por", "rus"]),
        ("{from: [por, en], to: [por, en]}", "joint", ["en", "por"]),
    ],
)
def test_into_several_languages_the_tag_names_the_target(configure, directions, kind, tags):
    store = prepare(configure(f"data.directions={directions}", f"vocabulary.kind={kind}"), Bars())
    assert store.manifest["vocabulary"]["tags"] == [f">>{tag}<<" for tag in tags]
    for direction in store.directions:
        ids, _ = decoded(store, direction, "train", "source", 0)
        assert store.vocabulary("source").id_to_piece(ids[0]) == f">>{direction.split('-')[1]}<<"
    same = (store.vocabulary("source").serialized_model_proto(), store.vocabulary("target").serialized_model_proto())
    assert (same[0] == same[1]) == (kind == "joint")


def test_a_tag_in_the_text_is_text(configure, corpus):
    path = corpus / "train.por-en.por.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    path.write_bytes(gzip.compress("\n".join([">>rus<< </s> <pad>", *lines[1:]]).encode()))
    ids, _ = decoded(prepare(configure(), Bars()), "por-en", "train", "source", 0)
    assert len(ids) > 5
    assert not {EOS, PAD, *range(3, 6)} & set(ids[1:-1])


def test_validation_is_capped_by_seed_and_kept_whole_beside_it(configure):
    store = prepare(configure(), Bars())
    assert (len(store.corpus("por-en", "valid")), len(store.corpus("por-en", "valid_full"))) == (25, 30)
    assert store.text("por-en", "test", "target") == list(sentences("en", 2000, 20))
    chosen = store.text("por-en", "valid", "source")
    assert set(chosen) < set(sentences("por", 1000, 30))
    assert chosen == sorted(chosen, key=list(sentences("por", 1000, 30)).index)
    assert prepare(configure("seed=2"), Bars()).text("por-en", "valid", "source") == chosen  # runs share it
    other = prepare(configure("store.seed=2", "store.folder=other"), Bars())
    assert other.text("por-en", "valid", "source") != chosen


def test_two_stores_from_the_same_settings_are_the_same_to_the_byte(configure, corpus):
    prepare(configure("store.folder=one"), Bars())
    prepare(configure("store.folder=two"), Bars())
    one, two = content_of(corpus / "one"), content_of(corpus / "two")
    assert one == two


def test_a_second_run_does_nothing(configure, corpus):
    prepare(configure(), Bars())
    before = files_of(corpus / "store")
    prepare(configure(), Bars())
    assert files_of(corpus / "store") == before


def test_a_copied_corpus_makes_the_same_store_and_a_changed_one_another(configure, corpus):
    before = prepare(configure(), Bars()).fingerprint
    for file in corpus.glob("*.gz"):
        os.utime(file, (1, 1))  # copying often changes the time, and nothing else
    assert prepare(configure(), Bars()).fingerprint == before
    assert prepare(configure("vocabulary.size_other=90"), Bars()).fingerprint != before
    assert prepare(configure("store.valid_cap=10"), Bars()).fingerprint != before
    assert prepare(configure(), Bars()).fingerprint == before
    file = corpus / "test.glg-en.en.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b"e", b"o", 1)))
    assert prepare(configure(), Bars()).fingerprint != before


def test_directions_in_another_order_make_the_same_as_in_a_new_store(configure):
    """The sample for the vocabulary depends on their order."""
    names, turned = "data.directions=[por-en, glg-en]", "data.directions=[glg-en, por-en]"
    few = "vocabulary.sample=20"
    first = prepare(configure(names, few), Bars()).fingerprint
    again = prepare(configure(turned, few), Bars()).fingerprint
    assert again == prepare(configure(turned, few, "store.folder=fresh"), Bars()).fingerprint
    assert again != first


def test_only_what_changed_is_made_again(configure, corpus, monkeypatch):
    scanned = calls_of(monkeypatch, make_scans, "scan_training")
    encoded = calls_of(monkeypatch, make_parts, "read_blocks")
    prepare(configure(), Bars())
    assert len(encoded) == 3 * 4
    scanned.clear()
    encoded.clear()
    prepare(configure("store.valid_cap=10"), Bars())
    assert scanned == []
    assert [files[0][0].path.name for files, _ in encoded] == [f"valid.{x}-en.{x}.gz" for x in ("por", "rus", "glg")]
    more = "\n".join([*sentences("rus", 0, 121), ""]), "\n".join([*sentences("en", 0, 121), ""])
    for language, text in zip(("rus", "en"), more, strict=True):
        (corpus / f"train.rus-en.{language}.gz").write_bytes(gzip.compress(text.encode()))
    encoded.clear()
    prepare(configure("store.valid_cap=10", "vocabulary.size_other=90"), Bars())
    (((_, directions, *_),), again) = scanned, encoded
    assert [direction.name for direction in directions] == ["rus-en"]
    assert len(again) == 3 * 4  # with another vocabulary
    folders = [path.name.split(".")[0] for path in (corpus / "store").iterdir() if path.is_dir()]
    assert sorted(folders) == ["held_out", "scan", "train", "vocabulary"]  # none left over


def test_the_number_of_files_does_not_depend_on_the_number_of_directions(configure, corpus):
    one = prepare(configure("data.directions=[por-en]", "store.folder=one"), Bars())
    three = prepare(configure(), Bars())
    assert len(files_of(three.folder)) == len(files_of(one.folder)) < 20


@pytest.mark.parametrize("processes", [2, 3])
def test_a_store_does_not_depend_on_the_number_of_processes(configure, corpus, monkeypatch, processes):
    settings = ["clean.duplicates=true", "clean.max_pieces=14", "clean.wrong_script=true", "clean.max_ratio=1.5"]
    prepare(configure(*settings, "store.folder=one"), Bars())
    monkeypatch.setattr(workers, "WORTHWHILE", 0)
    monkeypatch.setattr(read, "BLOCK_LINES", 17)
    many = prepare(configure(*settings, "store.folder=many", f"store.threads={processes}"), Bars())
    assert sum(many.manifest["directions"]["por-en"]["train"]["removed"].values()) > 3
    one, several = (
        {name: content for name, content in content_of(corpus / folder).items() if name != "manifest.json"}
        for folder in ("one", "many")
    )
    assert one == several


@pytest.mark.parametrize("kind", ["invalid UTF-8", "one line less", "cut gz"])
def test_bad_text_is_refused_by_several_processes_too(configure, corpus, monkeypatch, kind):
    monkeypatch.setattr(workers, "WORTHWHILE", 0)
    monkeypatch.setattr(read, "BLOCK_LINES", 17)
    break_corpus(corpus, kind)
    with pytest.raises(CorpusError, match=r"train\.glg-en"):
        prepare(configure("store.threads=2"), Bars())
    assert not (corpus / "store").exists()


def test_pairs_are_removed_for_stated_reasons_only(configure, corpus):
    path = corpus / "train.glg-en.glg.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    lines[3], lines[7] = "", "palabra " * 260
    lines[5] = next(sentences("glg", 2000, 1))  # stands in the test set
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    store = prepare(configure("clean.max_pieces=100"), Bars())
    train = store.manifest["directions"]["glg-en"]["train"]
    assert train["pairs"] == 40 - 3
    assert train["removed"] == {"invalid_utf8": 0, "empty": 1, "leakage": 1, "too_many_pieces": 1}
    kept = prepare(configure("clean.leakage=false", "clean.max_pieces=2000"), Bars())
    assert kept.sizes["glg-en"] == 39


def test_a_direction_without_training_text_is_refused(configure):
    store = prepare(configure(), Bars())
    manifest = {key: value for key, value in store.manifest.items() if key != "checksum"}
    parts = {split: part for split, part in manifest["directions"]["glg-en"].items() if split != "train"}
    without = {**manifest, "directions": {**manifest["directions"], "glg-en": parts}}
    for content in (manifest, without):
        (store.folder / "manifest.json").write_text(json.dumps(sealed_manifest(content)))
        with pytest.raises(DamagedError, match="glg-en") if content is without else nullcontext():
            open_store(store.folder)


@pytest.mark.parametrize(
    "victim",
    [
        "manifest.json",
        "train.*/source.ids",
        "train.*/offsets",
        "scan.*/flags",
        "vocabulary.*/source.model",
        "held_out.*/meta.json",
    ],
)
@pytest.mark.parametrize("damage", ["cut", "flip", "remove", "pipe"])
def test_damage_is_said_and_mended(configure, corpus, victim, damage):
    store = prepare(configure(), Bars())
    expected = content_of(store.folder)
    path = next(store.folder.glob(victim))
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 0x55]) + content[-8:])
    else:
        path.unlink()
        if damage == "pipe":
            os.mkfifo(path)
    with pytest.raises(DamagedError, match="evenglot prepare"):
        open_store(store.folder)
    said = io.StringIO()
    prepare(configure(), Bars(Console(file=said)))
    assert said.getvalue().endswith("it is made again\n") or path.name == "manifest.json"
    assert content_of(store.folder) == expected
    open_store(store.folder)


@pytest.mark.parametrize("damage", ["a key", "a pipe", "a device"])
def test_a_config_that_is_none_is_noticed_and_mended(configure, damage):
    """Also in sections that the store does not depend on."""
    store = prepare(configure(), Bars())
    file = store.folder / "config.yaml"
    whole = file.read_text()
    file.unlink()
    if damage == "a key":
        file.write_text(whole.replace("\ntrain:", "\ntrian:"))
    elif damage == "a pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    with pytest.raises(DamagedError, match=str(file)):
        open_prepared(configure())
    prepare(configure(), Bars())
    assert file.read_text() == whole
    open_prepared(configure())


def test_checksums_that_were_tampered_with_are_noticed(configure):
    store = prepare(configure(), Bars())
    folder = next(store.folder.glob("train.*"))
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "files": {}}))
    (folder / "source.ids").unlink()
    with pytest.raises(DamagedError, match="train"):
        open_store(store.folder)


def test_a_store_that_was_copied_without_hidden_files_is_one(configure, corpus):
    before = content_of(prepare(configure(), Bars()).folder)
    (corpus / "store" / ".lock").unlink()
    prepare(configure(), Bars())
    assert content_of(corpus / "store") == before


def test_of_one_direction_the_english_side_is_the_shared_one(configure):
    for direction, sides in (("glg-en", ("source", "target")), ("en-glg", ("target", "source"))):
        sizes = ("vocabulary.size_shared=60", "vocabulary.size_other=90")
        store = prepare(configure(f"data.directions=[{direction}]", f"store.folder={direction}", *sizes), Bars())
        other, english = (store.manifest["vocabulary"]["asked"][side] for side in sides)
        assert (other, english) == (90, 60)


def test_a_vocabulary_that_the_text_cannot_fill_is_said(configure):
    store = prepare(configure("vocabulary.size_other=5000"), Bars())
    (said,) = [warning for warning in store.warnings if warning.startswith("source vocabulary")]
    assert "5,000" in said


def break_corpus(corpus, kind):
    path = corpus / "train.glg-en.glg.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(
        {
            "cut gz": path.read_bytes()[:-20],
            "not gz": b"plain text",
            "0 bytes": b"",
            "random bytes": bytes(range(256)) * 50,
            "invalid UTF-8": gzip.compress(text.replace(b"gato", b"g\xfato")),
            "one line less": gzip.compress(text.rsplit(b"\n", 2)[0]),
            "one huge line": gzip.compress(text + b"x" * 3_000_000),
            "no text": gzip.compress(b""),
        }[kind]
    )
    if kind == "no text":
        (corpus / "train.glg-en.en.gz").write_bytes(gzip.compress(b""))


BROKEN = ["cut gz", "not gz", "0 bytes", "random bytes", "invalid UTF-8", "one line less", "one huge line", "no text"]


def test_bad_text_leaves_nothing_in_a_folder_that_is_a_link(configure, corpus, tmp_path):
    (corpus / "scratch").mkdir()
    (corpus / "store").symlink_to(corpus / "scratch")
    break_corpus(corpus, "one line less")
    with pytest.raises(CorpusError, match=r"train\.glg-en.*lines"):
        prepare(configure(), Bars())
    assert list((corpus / "store").iterdir()) == []


@pytest.mark.parametrize("kind", BROKEN)
def test_bad_text_is_refused_and_leaves_no_half_store(configure, corpus, kind):
    break_corpus(corpus, kind)
    with pytest.raises(CorpusError, match=r"train\.glg-en"):
        prepare(configure(), Bars())
    assert not (corpus / "store").exists()


def test_bad_text_does_not_harm_a_store_that_is_there(configure, corpus):
    prepare(configure(), Bars())
    break_corpus(corpus, "one line less")
    with pytest.raises(CorpusError):
        prepare(configure(), Bars())
    assert open_store(corpus / "store").sizes["glg-en"] == 40


def test_killed_at_any_moment_it_goes_on_and_ends_the_same(configure, corpus):
    prepare(configure("store.folder=whole"), Bars())
    words = ("prepare", corpus / "conf.yaml", "--set", "store.folder=killed")
    for renames in (0, 2, 3, 5):  # each gives its name to something that is finished
        dies = partial(kill_itself_after, renames, RENAMES)
        with Command(*words, output=corpus / "output", before=dies) as command:
            assert command.was_killed()
        assert not (corpus / "killed" / "manifest.json").exists()
    finish(*words, output=corpus / "output")
    assert content_of(corpus / "killed") == content_of(corpus / "whole")


def test_two_processes_do_not_write_one_store(configure, corpus):
    import fcntl

    prepare(configure(), Bars())
    with (corpus / "store" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CorpusError, match=str(corpus / "store")):
            prepare(configure(), Bars())


@pytest.mark.parametrize(
    "files",
    [
        {"log.jsonl": "{}", ".lock": "", "config.yaml": "of a run"},
        {"manifest.json": '{"recipe": "ted-related", "files": {}}', "train.aze-en.en": "text"},
    ],
)
def test_runs_and_corpora_are_not_taken_for_stores(configure, corpus, files):
    (corpus / "home").mkdir()
    for name, content in files.items():
        (corpus / "home" / name).write_text(content)
    with pytest.raises(CorpusError, match="not empty, and not a store"):
        prepare(configure(f"store.folder={corpus / 'home'}"), Bars())
    assert {path.name: path.read_text() for path in (corpus / "home").iterdir()} == files


def test_a_folder_with_other_things_in_it_is_refused_and_not_touched(configure, corpus):
    (corpus / "home" / "run").mkdir(parents=True)
    (corpus / "home" / "run" / "meta.json").write_text("{}")
    with pytest.raises(CorpusError, match="not empty, and not a store"):
        prepare(configure("store.folder=home"), Bars())
    assert [str(path.relative_to(corpus / "home")) for path in (corpus / "home").rglob("*")] == ["run", "run/meta.json"]


def spoil(path, *lines):
    """Make these lines of a gzipped file something that is not UTF-8."""
    text = gzip.decompress(path.read_bytes()).split(b"\n")
    path.write_bytes(gzip.compress(b"\n".join(b"\xff" if i in lines else line for i, line in enumerate(text))))


def test_lines_that_are_not_utf8_are_dropped_only_while_the_configuration_says_so(configure, corpus):
    spoil(corpus / "train.por-en.por.gz", 7)
    spoil(corpus / "valid.por-en.por.gz", *range(10))
    store = prepare(configure("data.invalid_utf8=drop", "store.valid_cap=15"), Bars())
    assert store.sizes["por-en"] == 299
    assert (len(store.corpus("por-en", "valid")), len(store.corpus("por-en", "valid_full"))) == (15, 20)
    with pytest.raises(CorpusError, match="data.invalid_utf8: drop"):
        prepare(configure("store.valid_cap=15"), Bars())
    spoil(corpus / "test.por-en.por.gz", 3)
    with pytest.raises(CorpusError, match=r"test\.por-en\.por\.gz:4: not UTF-8"):
        prepare(configure("data.invalid_utf8=drop"), Bars())


def test_held_out_sets_lose_over_long_pairs_only_and_the_full_ones_nothing(configure):
    store = prepare(configure("clean.min_pieces=4", "clean.max_piece_ratio=1.2", "clean.max_pieces=14"), Bars())
    assert store.sizes["por-en"] < 300
    assert len(store.corpus("por-en", "valid_full")) == 30
    assert len(store.corpus("por-en", "test")) == 20
    lengths = store.corpus("por-en", "valid").target.lengths - 1  # without </s>
    assert len(lengths) > 0
    assert lengths.max() <= 14


def test_nothing_left_to_train_on_is_an_error(configure):
    with pytest.raises(CorpusError, match="`clean`"):
        prepare(configure("clean.max_pieces=1"), Bars())


def test_a_disk_that_fills_up_is_an_error_and_leaves_no_short_file(configure, corpus):
    whole = prepare(configure("store.folder=whole"), Bars())
    limit = next(whole.folder.glob("train.*/source.ids")).stat().st_size - 100
    program = (
        "import resource, signal, sys; from evenglot.cli import main; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); main()"
    )
    command = [sys.executable, "-c", program, "prepare", str(corpus / "conf.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert str(corpus / "store") in done.stderr
    with pytest.raises(DamagedError):
        open_store(corpus / "store")


def test_text_that_is_edited_after_it_was_prepared_is_noticed(corpus):
    config = load_config(corpus / "conf.yaml")
    store = prepare(config, Bars())
    assert not text_has_changed(config, store)
    file = corpus / "train.glg-en.glg.gz"
    edited = gzip.decompress(file.read_bytes()).decode().replace("gato", "can")
    file.write_bytes(gzip.compress(edited.encode()))
    assert text_has_changed(config, open_prepared(config))
    assert not text_has_changed(config, prepare(config, Bars()))
    file.unlink()
    assert not text_has_changed(config, open_prepared(config)), "training does not need it"
