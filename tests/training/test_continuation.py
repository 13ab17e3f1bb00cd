"""Vocabularies and models of other runs: known subwords, tags and weights stay, new tags are added."""

import shutil

import pytest
import sentencepiece
import torch

from evenglot.balance.baseline import load_baseline
from evenglot.config import ConfigError, load_config
from evenglot.corpus.given import tag_ids, with_tags
from evenglot.corpus.prepare import prepare
from evenglot.corpus.prepared import StoreError, open_prepared
from evenglot.corpus.read import CorpusError
from evenglot.inference.translate import load
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import Run, RunError
from evenglot.scoring.reference_loss import reference_losses
from evenglot.training.model import create_model
from evenglot.training.train import train
from tests.tasks import CONFIG, write_corpora
from tests.training.helpers import events

OURS = "model: {size: tiny, dim: 32, ffn: 64, encoder_layers: 1, decoder_layers: 1, heads: 2, dropout: 0.1}"
VOCABULARY = "vocabulary: {size_shared: 60, size_other: 90, character_coverage: 1.0}\n"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A folder with text, and a run that knows two of its three languages."""
    folder = tmp_path_factory.mktemp("old")
    write_corpora(folder, {"aa": 150, "bb": 150, "cc": 60})
    (folder / "old.yaml").write_text(CONFIG.replace("[aa, bb, cc]", "[aa, bb]") + "store: {folder: old-store}\n")
    config = load_config(folder / "old.yaml")
    prepare(config, Bars())
    train(config, folder / "run")
    return folder


def write_config(folder, text, languages="[aa, bb, cc]"):
    file = folder / "conf.yaml"
    file.write_text(text.replace("[aa, bb, cc]", languages))
    return file


CONTINUED = CONFIG.replace(OURS, "model: {init: run}").replace(VOCABULARY, "")


@pytest.fixture
def folder(old, tmp_path):
    """A copy of that folder, to write to."""
    shutil.copytree(old, tmp_path / "copy")
    return tmp_path / "copy"


def test_tags_are_added_at_the_end_and_change_nothing_else(old):
    model = (old / "run/vocabulary/source.model").read_bytes()
    long = ">>" + "x" * 300 + "<<"  # its length takes two bytes
    more = with_tags(model, [">>aa<<", ">>cc<<", long])
    before, after = (sentencepiece.SentencePieceProcessor(model_proto=each) for each in (model, more))
    assert len(after) == len(before) + 2
    assert [after.id_to_piece(i) for i in range(len(before))] == [before.id_to_piece(i) for i in range(len(before))]
    assert tag_ids(more) == {**tag_ids(model), ">>cc<<": len(before), long: len(before) + 1}
    lines = [*(old / "train.cc-en.cc").read_text().splitlines()[:50], "text with >>cc<< in it"]
    assert after.encode(lines) == before.encode(lines)
    assert after.decode([[len(before), 5, 6]]) == before.decode([[5, 6]])
    assert with_tags(more, [">>aa<<", ">>cc<<"]) == more


@pytest.mark.parametrize("place", ["run", "run/vocabulary"])
def test_a_vocabulary_from_elsewhere(folder, place):
    text = CONFIG.replace(VOCABULARY, f"vocabulary: {{from: {place}}}\n")
    config = load_config(write_config(folder, text))
    store = prepare(config, Bars())
    known = tag_ids((folder / "run/vocabulary/source.model").read_bytes())
    assert tag_ids(store.vocabulary_file("source").read_bytes()) == {
        **known,
        ">>cc<<": store.vocabulary("source").piece_to_id(">>cc<<"),
    }
    assert store.tokenizers.encode(["denas"], "target") == open_prepared(
        load_config(folder / "old.yaml")
    ).tokenizers.encode(["denas"], "target")
    assert prepare(config, Bars()).fingerprint == store.fingerprint
    assert train(config, folder / "new") == "updates"
    assert load(folder / "new").translate(["a"], source="cc", to="en")
    saved = Run(folder / "new").config().vocabulary
    assert saved.given == str(folder / place)
    (folder / "run").rename(folder / "moved")  # it may move, its content may not change
    moved = load_config(write_config(folder, text.replace("from: run", "from: moved")))
    assert train(moved, folder / "another") == "updates"
    file = folder / place.replace("run", "moved", 1) / "vocabulary" / "source.model"
    file = file if file.exists() else file.parents[1] / "source.model"
    file.write_bytes(with_tags(file.read_bytes(), [">>zz<<"]))
    with pytest.raises(StoreError, match="evenglot prepare"):
        train(moved, folder / "third")


def test_a_run_with_a_further_language(folder):
    config = load_config(write_config(folder, CONTINUED))
    store = prepare(config, Bars())
    before, after = load_model(Run(folder / "run").best()), create_model(config, store).eval()
    old_rows = before.source_embedding.weight.shape[0]
    assert after.shape.source_pieces == old_rows + 1
    assert after.shape.target_pieces == before.shape.target_pieces
    for name, weight in before.state_dict().items():
        assert torch.equal(after.state_dict()[name][: len(weight)], weight), name
    tags = [row for tag, row in tag_ids((folder / "run/vocabulary/source.model").read_bytes()).items()]
    torch.testing.assert_close(after.source_embedding.weight[-1], before.source_embedding.weight[tags].mean(0))
    for name in ("aa-en", "bb-en"):  # the ids of their sentences are the same, so nothing is lost
        losses = reference_losses(before, open_prepared(load_config(folder / "old.yaml")), name, "test")
        assert reference_losses(after, store, name, "test") == pytest.approx(losses)
    assert train(config, folder / "new") == "updates"
    assert len(load(folder / "new").translate(["denas"], source="cc", to="en")) == 1


def test_it_resumes_to_the_same_bits_and_starts_from_its_own_losses(folder):
    balance = "balance={strategy: chi-ibr, rho: 0.1, baseline: init}"
    config = load_config(write_config(folder, CONTINUED), [balance, "train.updates=6"])
    store = prepare(config, Bars())
    train(config, folder / "whole")
    start = create_model(config, store).eval()
    sums = {name: torch.tensor(reference_losses(start, store, name, "valid")) for name in store.directions}
    assert sums.keys() <= load_baseline(folder / "whole/baseline.json").keys()
    train(load_config(folder / "conf.yaml", [balance, "train.updates=3"]), folder / "parts")
    train(config, folder / "parts", resume=True)
    whole, parts = (Run(folder / name).choose("6").read_model() for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert events(folder / "whole", "balance") == [] or events(folder / "whole", "balance")[0]["baseline"]
    shutil.rmtree(folder / "run/checkpoints/step-00000024")
    longer = load_config(folder / "conf.yaml", [balance, "train.updates=7"])
    with pytest.raises(RunError):  # no checkpoint there, or another one
        train(longer, folder / "parts", resume=True)


def test_a_language_that_a_given_vocabulary_cannot_write_gets_other_advice(folder):
    for file in folder.glob("*.cc-en.cc"):
        file.write_text(file.read_text().upper())  # the run knows small letters only

    def advice(text):
        store = prepare(load_config(write_config(folder, text)), Bars())
        (said,) = [warning for warning in store.warnings if warning.startswith("cc ")]
        return said

    assert "model.init" in advice(CONTINUED)
    assert "model.init" not in advice(CONFIG + "store: {folder: alone}\n")  # a vocabulary of its own, but a tiny one


def test_dropout_is_that_of_the_run_unless_it_is_set(folder):
    config = load_config(write_config(folder, CONTINUED))
    store = prepare(config, Bars())
    assert create_model(config, store).shape.dropout == 0.1
    shape = create_model(load_config(folder / "conf.yaml", ["model.dropout=0.4"]), store).shape
    assert (shape.dropout, shape.attention_dropout) == (0.4, 0.1)


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("vocabulary={from: nowhere}", "vocabulary.from"),
        ("vocabulary={from: run, size_other: 50}", "vocabulary.size_other"),
        ("model={init: run}", "vocabulary.from"),
    ],
)
def test_contradictions_of_vocabularies(folder, override, key):
    file = write_config(folder, CONFIG.replace(VOCABULARY, "vocabulary: {from: run}\n"))
    with pytest.raises(ConfigError, match=key):
        load_config(file, [override])


@pytest.mark.parametrize(
    ("override", "key"),
    [("model.lora={rank: 2}", "model.lora"), ("data.codes={aa: pt}", "data.codes"), ("model.dim=32", "model.dim")],
)
def test_contradictions_of_runs(folder, override, key):
    file = write_config(folder, CONTINUED)
    with pytest.raises(ConfigError, match=key):
        load_config(file, [override])


def test_a_run_without_vocabularies_of_its_own(folder):
    shutil.rmtree(folder / "run/vocabulary")
    with pytest.raises(ConfigError, match=r"model\.init: .*--to huggingface"):
        load_config(write_config(folder, CONTINUED))


def test_tags_that_name_the_other_side(folder):
    both = CONTINUED.replace("{from: [aa, bb, cc], to: en}", "[aa-en, en-bb]")
    with pytest.raises(CorpusError, match=r"model\.init: .*source.*target"):
        prepare(load_config(write_config(folder, both)), Bars())


def test_models_with_other_ids(folder):
    lines = iter((folder / "train.aa-en.aa").read_text().splitlines())
    with (folder / "source.model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=file, vocab_size=60, hard_vocab_limit=False, minloglevel=2
        )
    shutil.copy(folder / "source.model", folder / "target.model")
    file = write_config(folder, CONFIG.replace(VOCABULARY, "vocabulary: {from: .}\n"))
    shutil.rmtree(folder / "run")
    with pytest.raises(CorpusError, match=r"source\.model: .*ids 0, 1 and 2"):
        prepare(load_config(file), Bars())
    (folder / "target.model").write_bytes(b"nothing of the kind")
    with pytest.raises(CorpusError, match=r"target\.model: not a SentencePiece model"):
        prepare(load_config(file), Bars())


def test_a_vocabulary_that_changed_since_the_run(folder):
    file = folder / "run/vocabulary/target.model"
    file.write_bytes(with_tags(file.read_bytes(), [">>zz<<"]))
    config = load_config(write_config(folder, CONTINUED))
    prepare(config, Bars())
    with pytest.raises(RunError, match=r"target\.model: changed"):
        train(config, folder / "new")
