"""Pretrained checkpoints of every family train in our loop, and nothing of them is changed but the weights."""

import json
import pickle
import shutil
import sys
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from evenglot.balance.baseline import baseline_about, load_baseline
from evenglot.batches.load import Batch
from evenglot.config import ConfigError, load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.prepared import StoreError, open_prepared
from evenglot.directions import parse
from evenglot.export.ctranslate2 import export as to_ctranslate2
from evenglot.export.huggingface import export
from evenglot.extras import MissingExtraError
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import load
from evenglot.model import loss, search
from evenglot.model.devices import sum_type
from evenglot.model.families import FAMILIES, PretrainedError
from evenglot.model.pretrained import load_pretrained
from evenglot.model.products import has_faster_products
from evenglot.model.search import beam_search, greedy
from evenglot.progress import Bars
from evenglot.runs.checkpoint import DamagedCheckpointError, save
from evenglot.runs.model import load_model
from evenglot.runs.run import Run, RunError
from evenglot.scoring.score_run import score_run
from evenglot.training.model import create_model
from evenglot.training.parallel import Processes
from evenglot.training.step import Step
from evenglot.training.train import train
from evenglot.training.validation import losses_of
from tests.checkpoints import CODES, POSITIONS, save_checkpoint
from tests.model.test_devices import NoFloat64
from tests.tasks import SIZES
from tests.training.commands import arguments, finish, furthest_weights
from tests.training.helpers import events
from tests.training.pretrained_task import configured, copied
from tests.training.test_strategies import EVERY_STRATEGY, as_yaml

KINDS = list(CODES)


@cache
def transformers_and(folder):
    """transformers, and the tokenizer and model of a checkpoint as it loads them."""
    import transformers

    from evenglot.extras import quiet

    with quiet(transformers):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return transformers, tokenizer, transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def their_losses(file, kind, smoothing):
    """Loss sums and tokens of the validation pairs of each direction, by transformers alone, from the text."""
    transformers, tokenizer, model = transformers_and(file.parent / "init")
    found = {}
    for language in sorted(SIZES):
        lines = [(file.parent / f"valid.{language}-en.{side}").read_text().splitlines() for side in (language, "en")]
        if kind in ("nllb", "m2m100", "mbart", "mbart50"):
            tokenizer.src_lang, tokenizer.tgt_lang = CODES[kind][language], CODES[kind].get("en", "en")
        elif kind == "madlad":
            lines[0] = [f"<2en> {line}" for line in lines[0]]
        total, count = 0.0, 0
        for source, target in zip(*lines, strict=True):
            batch = tokenizer([source], text_target=[target], return_tensors="pt")
            with torch.no_grad():
                result = model(**batch)
                smooth = transformers.trainer_pt_utils.LabelSmoother(smoothing)(result, batch["labels"])
            tokens = batch["labels"].numel()
            total, count = total + float(smooth if smoothing else result.loss) * tokens, count + tokens
        found[f"{language}-en"] = (total, count)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_losses_are_those_of_transformers(prepared, kind):
    config = configured(prepared(kind))
    store = open_prepared(config)
    for smoothing in (0.0, 0.1):
        config = configured(prepared(kind), f"train.label_smoothing={smoothing}")
        step = Step.of(config, store, create_model(config, store), None, Processes())
        seen = losses_of(step, {name: store.corpus(name, "valid") for name in step.names}, 256)
        expected = their_losses(prepared(kind), kind, smoothing)
        assert seen.tokens.tolist() == [expected[name][1] for name in step.names]
        for name, mean in seen.means(step.names).items():
            assert mean == pytest.approx(expected[name][0] / expected[name][1], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_search_steps_through_the_same_model(prepared, kind):
    config = configured(prepared(kind))
    store = open_prepared(config)
    model = create_model(config, store).eval()
    begin = store.tokenizers.begin(parse("aa-en"))
    corpus = store.corpus("aa-en", "valid")
    ids = [torch.from_numpy(corpus.source[row].astype(np.int64)) for row in range(6)]
    lengths = torch.tensor([len(each) for each in ids])
    source = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=model.symbols.pad)
    alone = [greedy(model, each[None], torch.tensor([len(each)]), 12, begin)[0] for each in ids]
    assert greedy(model, source, lengths, 12, begin) == alone
    narrow = beam_search(model, source, lengths, beam=1, max_length=12, begin=begin)
    assert [found[0].pieces for found in narrow] == alone
    wide = beam_search(model, source, lengths, beam=4, n_best=4, max_length=12, begin=begin)
    for each, hypotheses in zip(ids, wide, strict=True):
        for found in hypotheses:  # whole sentences at once, without a cache
            said = torch.tensor([*found.pieces, *[model.symbols.eos] * found.ended])
            with torch.no_grad():
                seen = torch.tensor([[*begin, *said[:-1]]])
                hidden = model.decode(seen, model.encode(each[None], torch.tensor([len(each)])))
                logits = model.project(hidden)[0, len(begin) - 1 :]
            logits[:, model.symbols.pad] = -torch.inf
            expected = logits.log_softmax(1).gather(1, said[:, None]).sum()
            assert found.log_probability == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("kind", ["nllb", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def test_a_run_can_be_exported_in_the_same_format(prepared, kind, tmp_path):
    file = prepared(kind)
    train(configured(file, "train.learning_rate=1e-3"), tmp_path / "run")
    report = export(Run(tmp_path / "run"), tmp_path / "out")
    assert report.sentences == report.identical > 40
    assert report.logit_difference < 1e-5
    before, after = (load_file(folder / "model.safetensors") for folder in (file.parent / "init", tmp_path / "out"))
    assert {name: weight.shape for name, weight in before.items()} == {
        name: weight.shape for name, weight in after.items() if name in before
    }
    assert any(not torch.equal(before[name], after[name]) for name in before)
    copies = {path.name for path in (file.parent / "init").iterdir()} - {"model.safetensors", "config.json"}
    assert all((file.parent / "init" / name).read_bytes() == (tmp_path / "out" / name).read_bytes() for name in copies)
    # The export can be fine-tuned further.
    again = copied(file, tmp_path / "again")
    shutil.rmtree(again.parent / "init")
    shutil.copytree(tmp_path / "out", again.parent / "init")
    prepare(configured(again), Bars())
    assert create_model(configured(again), open_prepared(configured(again))).target_pieces


def test_ctranslate2_is_said_not_to_serve_it(prepared, tmp_path):
    train(configured(prepared("nllb"), "train.updates=1"), tmp_path / "run")
    with pytest.raises(ValueError, match="torch"):
        load(tmp_path / "run", engine="ctranslate2")
    with pytest.raises(ValueError, match="--to huggingface"):
        to_ctranslate2(Run(tmp_path / "run"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_export_translates_with_the_usual_calls_of_transformers(prepared, tmp_path):
    file = prepared("nllb")
    train(configured(file, "train.updates=3", "train.learning_rate=1e-3"), tmp_path / "run")
    export(Run(tmp_path / "run"), tmp_path / "out")
    _, tokenizer, model = transformers_and(tmp_path / "out")
    lines = (file.parent / "test.bb-en.bb").read_text().splitlines()[:8]
    tokenizer.src_lang = "tur_Latn"
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    english = tokenizer.convert_tokens_to_ids("eng_Latn")
    found = model.generate(**batch, forced_bos_token_id=english, num_beams=1, max_length=20)
    ours = load(tmp_path / "run").translate(lines, source="bb", to="en", beam=1, max_length=18)
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == ours
    assert len(set(ours)) > 1


@pytest.mark.parametrize("kind", ["nllb", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def test_a_resumed_run_ends_with_the_same_bits(prepared, kind, tmp_path):
    settings = ["balance={strategy: chi-ibr, rho: 0.1, baseline: init}", "batches.interval_updates=2"]

    def trained(folder, updates, resume=False):
        train(configured(prepared(kind), *settings, f"train.updates={updates}"), tmp_path / folder, resume=resume)

    trained("whole", 6)
    trained("parts", 3)
    trained("parts", 6, resume=True)
    mixtures = [[event["mixture"] for event in events(tmp_path / run, "balance")] for run in ("whole", "parts")]
    assert len(mixtures[0]) >= 2
    assert mixtures[0] == mixtures[1]
    for name in ("model.safetensors", "optimizer.safetensors"):
        whole, parts = (load_file(tmp_path / run / "checkpoints/step-00000006" / name) for run in ("whole", "parts"))
        assert whole.keys() == parts.keys()
        assert all(torch.equal(whole[key], parts[key]) for key in whole)


QUICK = ("temperature", "group-dro", "multidds", "chi-pd")


@pytest.mark.parametrize(
    "strategy",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EVERY_STRATEGY],
)
def test_every_strategy_trains_it(prepared, strategy, tmp_path):
    balance = {"strategy": strategy, **EVERY_STRATEGY[strategy]}
    config = configured(prepared("nllb"), f"balance={as_yaml(balance)}", "train.chrf_sentences=2")
    assert train(config, tmp_path / "run") == "updates"
    (valid,) = events(tmp_path / "run", "validation")[-1:]
    assert set(valid["loss"]) == set(valid["chrf"]) == {f"{language}-en" for language in SIZES}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_and_is_scored(prepared, kind, tmp_path):
    train(configured(prepared(kind), "train.updates=40", "train.learning_rate=5e-3"), tmp_path / "run")
    losses = [event["pooled"] for event in events(tmp_path / "run", "validation")]
    assert losses[-1] < 0.8 * losses[0]
    scores, _ = score_run(Run(tmp_path / "run"), "test", SearchOptions(beam=2), Bars())
    assert set(scores["directions"]) == {f"{language}-en" for language in SIZES}
    assert all(row["lines"] == 30 and row["loss_per_character"] > 0 for row in scores["directions"].values())


def test_the_losses_of_the_checkpoint_are_the_baseline(prepared, tmp_path):
    file = prepared("nllb")
    config = configured(file, "balance={strategy: chi-ibr, rho: 0.1, baseline: init, signal: valid}")
    train(config, tmp_path / "run")
    baseline = load_baseline(tmp_path / "run" / "baseline.json")
    for name, (total, tokens) in their_losses(file, "nllb", config.train.label_smoothing).items():
        assert baseline[name] == pytest.approx(total / tokens, abs=1e-5)
    assert not (tmp_path / "run" / "reference").exists()
    assert "updates" not in baseline_about(tmp_path / "run" / "baseline.json")
    balance = events(tmp_path / "run", "balance")
    assert not balance or balance[0]["baseline"] == pytest.approx(
        {name: baseline[name] for name in balance[0]["baseline"]}
    )


def test_other_processes_encode_the_same(prepared):
    store = open_prepared(configured(prepared("m2m100")))
    direction, lines = parse("aa-en"), store.text("aa-en", "valid", "target")
    expected = store.tokenizers.frames(direction), store.tokenizers.encode(lines, "target")
    sent = pickle.loads(pickle.dumps(store.tokenizers))
    assert not vars(sent).keys() & {"_tokenizer", "_known"}  # what is loaded stays here
    assert (sent.frames(direction), sent.encode(lines, "target")) == expected
    assert [store.tokenizers.frames(direction)[1].around(ids) for ids in expected[1]] == [
        store.corpus("aa-en", "valid").target[row].tolist() for row in range(len(lines))
    ]
    assert store.tokenizers.decode(expected[1]) == lines


@pytest.mark.parametrize("kind", ["nllb", "marian", "t5"])
def test_it_needs_no_float64_where_a_device_has_none(prepared, kind, monkeypatch):
    for module in (loss, search):
        monkeypatch.setattr(module, "sum_type", lambda device: sum_type(torch.device("mps")))
    config = configured(prepared(kind))
    store = open_prepared(config)
    model, corpus = create_model(config, store), store.corpus("aa-en", "valid")
    source, target = (torch.from_numpy(side[0].astype(np.int64))[None] for side in (corpus.source, corpus.target))
    lengths = [torch.tensor([side.size(1)]) for side in (source, target)]
    batch = Batch(source, target, *lengths, torch.zeros(1, dtype=torch.int64))
    begin = store.tokenizers.begin(parse("aa-en"))
    has_faster_products(torch.float32)  # tries out the CPU, once, in float64
    with NoFloat64():
        loss.batch_loss(model.train(), batch, torch.ones(1), 0.1).objective.backward()
        found = beam_search(model.eval(), source, lengths[0], beam=2, max_length=8, begin=begin)
    assert len(found[0]) == 1


def test_dropout_is_that_of_the_checkpoint_unless_it_is_set(prepared, tmp_path):
    file = prepared("nllb")
    store = open_prepared(configured(file))
    assert create_model(configured(file), store).model.config.dropout == 0.1
    config = configured(file, "model.dropout=0.25")
    assert create_model(config, store).model.config.dropout == 0.25
    config.save(tmp_path / "saved.yaml")
    saved = load_config(tmp_path / "saved.yaml")
    assert saved.model == config.model
    assert set(saved.model_dump()["model"]) == {"init", "dropout"}


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("model.dim=64", "model.dim"),
        ("model.init=nowhere", "model.init"),
        ("data.codes={xx: por_Latn}", "data.codes"),
        ("model={size: tiny}", "data.codes"),
    ],
)
def test_contradictions_are_refused_with_the_key(prepared, override, key):
    with pytest.raises(ConfigError, match=key):
        configured(prepared("nllb"), override)


def test_init_as_a_baseline_needs_a_pretrained_model(conf):
    with pytest.raises(ConfigError, match=r"balance\.baseline: .*model\.init"):
        load_config(conf, ["balance={strategy: chi-ibr, baseline: init}"])


def rewrite(file, **changes):
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, **changes}))


def test_without_transformers_the_extra_is_named(prepared, monkeypatch):
    config = configured(prepared("nllb"))
    monkeypatch.setitem(sys.modules, "transformers", None)  # whoever imports it gets a ModuleNotFoundError
    with pytest.raises(MissingExtraError, match=r"evenglot\[hf\]"):
        create_model(config, open_prepared(config))
    with pytest.raises(MissingExtraError, match=r"evenglot\[hf\]"):
        open_prepared(config).tokenizers.frames(parse("aa-en"))


def test_checkpoints_that_cannot_be_used_are_refused_before_anything_is_read(prepared, tmp_path):
    file = copied(prepared("nllb"), tmp_path / "copy")
    init = file.parent / "init"
    rewrite(init / "config.json", model_type="llama")
    with pytest.raises(ConfigError, match=f"model.init: .*{', '.join(FAMILIES)}.*'llama'"):
        configured(file)
    rewrite(init / "config.json", model_type="m2m_100")
    (init / "model.safetensors").rename(init / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"model\.init: .*pytorch_model\.bin.*save_pretrained") as refused:
        configured(file)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "damage", [lambda whole: b"", lambda whole: whole[:100], lambda whole: whole[:-100], lambda whole: b"\xff" * 100]
)
def test_damaged_weights_are_refused_in_one_line(prepared, damage, tmp_path):
    init = copied(prepared("nllb"), tmp_path / "copy").parent / "init"
    weights = init / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    with pytest.raises(PretrainedError, match="init: cannot be loaded: .") as refused:
        load_pretrained(init)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change", [{"encoder_attention_heads": 0}, {"d_model": "many"}])
def test_a_config_that_makes_no_sense_is_refused_in_one_line(prepared, change, tmp_path):
    init = copied(prepared("nllb"), tmp_path / "copy").parent / "init"
    rewrite(init / "config.json", **change)
    with pytest.raises(PretrainedError, match="init") as refused:
        load_pretrained(init)
    assert "\n" not in str(refused.value)


STRANGE = [
    {"model_type": "gpt2"},
    {"d_model": 10**9},
    {"d_model": "many"},
    {"vocab_size": 10**12},
    {"decoder_layers": 10**6, "num_decoder_layers": 10**6},
    {"max_position_embeddings": 10**12, "relative_attention_num_buckets": 10**12},
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_a_run_with_a_strange_description_is_refused(prepared, kind, tmp_path):
    model = load_pretrained(prepared(kind).parent / "init")

    def loaded(**changes):
        state = model.description()
        state["pretrained"] = {**state["pretrained"], **changes}
        return load_model(save(tmp_path, 1, model=model.state_dict(), optimizer=None, state=state, score=None))

    weights = loaded().state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    for changes in STRANGE:
        with pytest.raises(DamagedCheckpointError, match="step-00000001") as refused:
            loaded(**changes)
        assert "\n" not in str(refused.value)


def test_what_is_no_folder_is_said_to_be_none(prepared):
    file = prepared("nllb")
    with pytest.raises(ConfigError, match=r"model\.init: .*no such folder.*hf download"):
        configured(file, "model.init=facebook/nllb-200-distilled-600M")
    with pytest.raises(ConfigError, match=r"model\.init: .*not a folder"):
        configured(file, f"model.init={file}")


def test_a_tokenizer_that_is_missing_or_of_another_model_is_refused(prepared, tmp_path):
    file = copied(prepared("nllb"), tmp_path / "copy")
    init = file.parent / "init"
    (init / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    with pytest.raises(PretrainedError, match="no tokenizer"):
        prepare(configured(file), Bars())
    shutil.copy(tmp_path / "tokenizer.json", init)
    rewrite(init / "config.json", vocab_size=20)
    with pytest.raises(PretrainedError, match="does not fit"):
        prepare(configured(file), Bars())


@pytest.mark.parametrize(("kind", "given", "nearest"), [("nllb", "por", "por_Latn"), ("m2m100", "ptt", "pt")])
def test_an_unknown_language_code_names_the_nearest(prepared, kind, given, nearest):
    codes = json.dumps({**CODES[kind], "aa": given})
    with pytest.raises(PretrainedError, match=f"data.codes.aa.*{given!r}.*{nearest!r}"):
        prepare(configured(prepared(kind), f"data.codes={codes}"), Bars())


def test_the_target_must_be_known_if_the_tokenizer_has_tags(prepared):
    with pytest.raises(PretrainedError, match="data.codes.en"):
        prepare(configured(prepared("madlad"), "data.codes={en: eng}"), Bars())


def test_sentences_may_not_exceed_the_positions(prepared):
    config = configured(prepared("nllb"), f"clean.max_pieces={POSITIONS}")
    with pytest.raises(PretrainedError, match=rf"clean\.max_pieces: .*set at most {POSITIONS - 2}"):
        prepare(config, Bars())


def test_a_checkpoint_that_changed_is_refused_on_resume(prepared, tmp_path):
    file = copied(prepared("nllb"), tmp_path / "copy")
    train(configured(file, "train.updates=1"), tmp_path / "run")
    (file.parent / "init").rename(file.parent / "moved")
    train(configured(file, "train.updates=2", "model.init=moved"), tmp_path / "run", resume=True)
    with pytest.raises(PretrainedError, match=r"init: no such folder"):
        train(load_config(file, ["train.updates=3"], check_files=False), tmp_path / "run", resume=True)
    save_checkpoint("nllb", file.parent / "init", seed=2)
    with pytest.raises(RunError, match=r"init: .*changed"):
        train(configured(file, "train.updates=3"), tmp_path / "run", resume=True)


def test_a_store_with_another_tokenizer_is_refused(prepared, tmp_path):
    file = copied(prepared("nllb"), tmp_path / "copy")
    rewrite(file.parent / "init" / "tokenizer_config.json", model_max_length=77)
    with pytest.raises(StoreError, match="evenglot prepare"):
        train(configured(file), tmp_path / "run")
    with pytest.raises(StoreError, match=r"data\.codes"):
        train(configured(file, "data.codes={aa: tur_Latn, bb: tur_Latn, cc: ces_Latn, en: eng_Latn}"), tmp_path / "run")


def test_weights_that_do_not_fit_the_config_are_refused(prepared, tmp_path):
    file = copied(prepared("nllb"), tmp_path / "copy")
    rewrite(file.parent / "init" / "config.json", decoder_layers=3)
    prepare(configured(file), Bars())
    with pytest.raises(PretrainedError, match=r"decoder\.layers\.2"):
        train(configured(file), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_train_it_as_one_does(prepared, tmp_path, kind, mode):
    settings = ["train.updates=3", "train.warmup=2", "train.log_every=1", "train.chrf_sentences=2"]
    train(load_config(prepared(kind), settings), tmp_path / "one")
    chosen = [*settings, f"train.parallel={mode}"]
    finish(*arguments(prepared(kind), tmp_path / "two", chosen), output=tmp_path / "said", processes=2)
    losses = [[event["loss"] for event in events(tmp_path / run, "step")] for run in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert furthest_weights(tmp_path / "one", tmp_path / "two") < 1e-3
