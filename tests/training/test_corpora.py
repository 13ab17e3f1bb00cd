"""Corpora with names of their own: groups with a weight and a tag, and the held-out text of their direction."""

import json

import numpy as np
import pytest
import torch

from evenglot import compare, report
from evenglot.balance import Signal
from evenglot.config import ConfigError, load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.prepared import StoreError, open_prepared
from evenglot.directions import Direction, group_of, parse, whole_direction
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import load
from evenglot.preview.check import check
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import ChangedSettingsError, Run
from evenglot.scoring.score_run import score_run
from evenglot.training.parallel import Processes
from evenglot.training.reference import baseline
from evenglot.training.train import train
from tests.checkpoints import CODES, save_checkpoint
from tests.tasks import CONFIG, cipher, write_corpora
from tests.training.helpers import events
from tests.training.pretrained_task import OURS

SIZES = {"aa": 90, "bb": 60, "cc": 50}
BACK = 40
NAMES = {"aa-en", "bb-en", "cc-en", "aa-en/bt", "bb-en/bt", "aa-en/legal"}
CORPORA = """\
  corpora:
    bt: {train: "bt.{pair}.{lang}", directions: [aa-en, bb-en]}
    legal: {train: ["legal.{src}", "legal.{tgt}"], directions: aa-en, tag: false}
"""


def write_text(folder):
    write_corpora(folder, SIZES)
    random = np.random.default_rng(3)
    for name, language in {"bt.aa-en": "aa", "bt.bb-en": "bb", "legal": "aa"}.items():
        english = [" ".join(random.choice(["banas", "derel", "fitim", "gosu"], 3)) for _ in range(BACK)]
        for code, lines in {"en": english, language: [line.translate(cipher(language)) for line in english]}.items():
            (folder / f"{name}.{code}").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A config file with three such corpora, whose store is prepared."""
    folder = tmp_path_factory.mktemp("corpora")
    write_text(folder)
    file = folder / "conf.yaml"
    file.write_text(CONFIG.replace("clean:", CORPORA + "clean:"))
    prepare(load_config(file), Bars())
    return file


@pytest.fixture(scope="module")
def ran(file):
    """A run on them with a strategy that observes losses."""
    config = load_config(file, ["balance={strategy: chi-ibr, rho: 0.1}", "train.updates=12"])
    train(config, file.parent / "run")
    return Run(file.parent / "run")


def test_names_and_groups():
    corpus = Direction("por", "en", "romance", "bt", tagged=True)
    assert (corpus.name, corpus.corpus_tag, whole_direction(corpus.name)) == ("por-en/bt", "<<bt>>", "por-en")
    assert whole_direction("por-en") == "por-en"
    groups = [group_of(corpus, grouping) for grouping in ("pair", "source", "target", "label")]
    assert groups == ["por-en/bt", "por/bt", "en/bt", "romance/bt"]


def test_the_store_has_them_with_their_tags_and_without_held_out_text(file):
    store = open_prepared(load_config(file))
    assert set(store.directions) == NAMES
    assert {name: store.splits(name) for name in NAMES if "/" in name} == {
        name: ("train",) for name in NAMES if "/" in name
    }
    assert store.sizes["aa-en/bt"] == store.sizes["aa-en/legal"] == BACK
    pieces = store.vocabulary("source")

    def tags(name):
        first = (store.corpus(name, "train").source[row][:2].tolist() for row in range(5))
        return {tuple(pieces.id_to_piece(i) for i in ids if pieces.is_control(i)) for ids in first}

    assert tags("aa-en") == tags("aa-en/legal") == {(">>aa<<",)}
    assert tags("bb-en/bt") == {(">>bb<<", "<<bt>>")}


def test_check_counts_them_and_asks_for_no_validation_text(file):
    found = check(load_config(file), Bars())
    rows = {row.direction: row for row in found.rows}
    assert rows.keys() == NAMES
    assert rows["aa-en/bt"].pairs == BACK
    assert rows["aa-en/bt"].valid is None
    assert not any("no validation set" in warning for warning in found.warnings)


def test_a_run_weighs_them_by_themselves(ran):
    (start,) = events(ran.folder, "config")
    assert set(start["directions"]) == NAMES
    (first, *_) = events(ran.folder, "balance")
    assert set(first["mixture"]) == set(first["losses"]) == NAMES
    assert all(first["losses"][name] is not None for name in NAMES)
    assert set(events(ran.folder, "validation")[-1]["loss"]) == {"aa-en", "bb-en", "cc-en"}


def test_it_translates_scores_compares_and_is_reported(ran, file, tmp_path):
    assert load(ran.folder).translate(["xyz"], source="aa", to="en", beam=1)
    scores, _ = score_run(ran, "test", SearchOptions(beam=1, max_length=8), Bars())
    assert set(scores["directions"]) == {"aa-en", "bb-en", "cc-en"}
    train(load_config(file, ["balance={strategy: uniform}", "train.updates=12"]), tmp_path / "other")
    score_run(Run(tmp_path / "other"), "test", SearchOptions(beam=1, max_length=8), Bars())
    compare([ran, tmp_path / "other"])
    report([ran, tmp_path / "other"], out=tmp_path / "report.html")
    assert "aa-en/bt" in (tmp_path / "report.html").read_text()
    losses = baseline(ran, tmp_path / "losses.json", Signal("valid"), Processes(), Bars())
    assert losses["aa-en/bt"] == pytest.approx(losses["aa-en"], rel=1e-5)
    on_text = baseline(ran, tmp_path / "losses.json", Signal("train"), Processes(), Bars())
    assert on_text["aa-en/bt"] != on_text["aa-en"]


@pytest.mark.parametrize(
    "balance",
    [
        {"strategy": "multidds"},
        {"strategy": "chi-ibr", "rho": 0.1, "signal": "valid"},
        {"strategy": "group-dro"},
        {"strategy": "fastdro"},
    ],
)
@pytest.mark.parametrize("grouping", ["pair", "source"])
def test_strategies_serve_them(file, balance, grouping, tmp_path):
    config = load_config(file, [f"balance={json.dumps(balance)}", f"data.grouping={grouping}", "train.updates=8"])
    assert train(config, tmp_path / "run") == "updates"


def test_validation_losses_are_those_of_the_direction(file, tmp_path):
    signal = "balance={strategy: chi-ibr, rho: 0.1, signal: valid, ema: 1.0}"
    train(load_config(file, [signal, "train.updates=12", "data.grouping=source"]), tmp_path / "run")
    (first, *_) = events(tmp_path / "run", "balance")
    assert first["losses"]["aa-en/bt"] == pytest.approx(first["losses"]["aa-en"])


def test_a_resumed_run_ends_with_the_same_bits(ran, file, tmp_path):
    overrides = ["balance={strategy: chi-ibr, rho: 0.1}"]
    train(load_config(file, [*overrides, "train.updates=5"]), tmp_path / "parts")
    train(load_config(file, [*overrides, "train.updates=12"]), tmp_path / "parts", resume=True)
    whole, parts = (each.choose("12").read_model() for each in (ran, Run(tmp_path / "parts")))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    with pytest.raises((ChangedSettingsError, StoreError)):
        train(load_config(file, [*overrides, "data.corpora={}", "train.updates=13"]), tmp_path / "parts", resume=True)


def test_the_saved_configuration_is_the_same(ran, file):
    assert Run(ran.folder).config().data.corpora == load_config(file).data.corpora


def test_another_tag_needs_another_store(file, tmp_path):
    untagged = load_config(file, ["data.corpora.bt.tag=false"])
    with pytest.raises(StoreError, match=r"data\.corpora"):
        train(untagged, tmp_path / "run")
    other = load_config(file, ["data.corpora.bt.tag=false", f"store.folder={tmp_path}/store"])
    store = prepare(other, Bars())
    assert store.vocabulary("source").piece_to_id("<<bt>>") == store.vocabulary("source").unk_id()
    tagged = open_prepared(load_config(file))
    short, long = (each.corpus("aa-en/bt", "train").source.lengths.mean() for each in (store, tagged))
    assert long == pytest.approx(short + 1, abs=0.9)  # the vocabularies differ a little


def test_a_run_continues_with_a_new_corpus(file, ran, tmp_path):
    text = file.read_text().replace(CORPORA, '  corpora: {new: {train: "bt.{pair}.{lang}", directions: [aa-en]}}\n')
    text = text.replace("vocabulary: {size_shared: 60, size_other: 90, character_coverage: 1.0}\n", "")
    other = file.parent / "continued.yaml"
    other.write_text(text.replace(OURS, "model: {init: run}") + "store: {folder: continued}\n")
    config = load_config(other)
    store = prepare(config, Bars())
    assert store.vocabulary("source").is_control(store.vocabulary("source").piece_to_id("<<new>>"))
    train(config, tmp_path / "run")
    assert load_model(Run(tmp_path / "run").best()).shape.source_pieces == store.vocabulary("source").get_piece_size()


def test_the_tag_of_a_pretrained_model_is_text(file, tmp_path):
    write_text(tmp_path)
    save_checkpoint("nllb", tmp_path / "init")
    text = (
        file.read_text()
        .replace(OURS, "model: {init: init}")
        .replace("leakage: false", "leakage: false, max_pieces: 30")
    )
    conf = tmp_path / "conf.yaml"
    conf.write_text(text.replace("data:\n", f"data:\n  codes: {json.dumps(CODES['nllb'])}\n"))
    store = prepare(load_config(conf), Bars())
    plain, tagged = (
        store.tokenizers.frames(each)[0] for each in (parse("aa-en"), Direction("aa", "en", None, "bt", True))
    )
    said = store.tokenizers.encode(["<<bt>>"], "source")[0]
    assert tagged.before == (*plain.before, *said)
    first = store.corpus("aa-en/bt", "train").source[0].tolist()
    assert tuple(first[: len(tagged.before)]) == tagged.before


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ('{"b/t": {train: "bt.{pair}.{lang}"}}', r"data\.corpora.*letters"),
        ('{bt: {train: "bt.{pair}.{lang}", directions: [ab-en]}}', r"data\.corpora\.bt\.directions: ab-en.*bb-en"),
        ('{bt: {train: "nothing.{pair}.{lang}"}}', r"data\.corpora\.bt\.train: no such file"),
        ('{bt: {train: "bt.{pair}.{lang}", tags: true}}', r"data\.corpora\.bt\.tags: unknown key; did you mean 'tag'"),
        ("{bt: {tag: true}}", r"data\.corpora\.bt\.train"),
        ('{bt: {train: "train.{pair}.{lang}"}}', r"data\.corpora\.bt\.train: .*same file"),
    ],
)
def test_mistakes_are_refused_with_the_key(file, corpora, message):
    with pytest.raises(ConfigError, match=message):
        load_config(file, [f"data.corpora={corpora}"])
