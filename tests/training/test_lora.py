"""Adapters are trained instead of the weights, stored alone, and read by peft."""

import json
import sys

import pytest
import torch
import yaml
from safetensors.torch import load_file

from evenglot.balance import Signal
from evenglot.balance.baseline import load_baseline
from evenglot.config import ConfigError, load_config
from evenglot.corpus.prepared import open_prepared
from evenglot.export.hub import Sharing
from evenglot.export.huggingface import export
from evenglot.extras import MissingExtraError, quiet
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import load
from evenglot.model.families import PretrainedError
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import ChangedSettingsError, Run
from evenglot.scoring.score_run import score_run
from evenglot.training.model import create_model
from evenglot.training.parallel import Processes
from evenglot.training.reference import baseline
from evenglot.training.step import Step
from evenglot.training.train import train
from evenglot.training.validation import losses_of
from tests.checkpoints import CODES, save_checkpoint
from tests.tasks import SIZES
from tests.training.helpers import events
from tests.training.pretrained_task import configured, copied

KINDS = list(CODES)
LORA = ["model.lora={rank: 4, dropout: 0.1}", "train.learning_rate=2e-2", "train.warmup=1"]


@pytest.fixture(scope="session")
def adapted(prepared, tmp_path_factory):
    """A run of six updates that trained adapters."""
    folder = tmp_path_factory.mktemp("lora") / "run"
    train(configured(prepared("nllb"), *LORA, "train.updates=6"), folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_only_adapters_are_trained_and_they_begin_without_effect(prepared, kind):
    config = configured(prepared(kind), *LORA)
    store = open_prepared(config)
    torch.manual_seed(99)  # the start depends on the seed of the configuration alone
    model, plain = create_model(config, store).eval(), create_model(configured(prepared(kind)), store).eval()
    assert all(("lora_" in name) == weight.requires_grad for name, weight in model.named_parameters())
    assert len(model.state_dict()) == 2 * sum(hasattr(layer, "lora_A") for layer in model.modules()) > 0
    again = create_model(config, store).state_dict()
    assert all(torch.equal(weight, again[name]) for name, weight in model.state_dict().items())
    batch = torch.tensor([[5, 6, 7, model.symbols.eos]]), torch.tensor([4])
    # The library's kernels depend on whether weights are trained, so the last bits may differ.
    torch.testing.assert_close(model(*batch, *batch), plain(*batch, *batch))


def test_gradients_are_those_of_the_product_of_both_matrices(prepared):
    """For y = W x + s B A x: the gradient of B is s g (A x)^T, where g x^T is that of W."""
    config = configured(prepared("nllb"), "model.lora={rank: 3, alpha: 6}")
    store = open_prepared(config)
    model = create_model(config, store).eval()
    plain = create_model(configured(prepared("nllb")), store).eval()
    batch = torch.tensor([[5, 6, 7, model.symbols.eos]]), torch.tensor([4])
    for each in (model, plain):
        (each(*batch, *batch) ** 3).sum().backward()
    layer = model.model.model.encoder.layers[0].fc1
    of_weight = plain.model.model.encoder.layers[0].fc1.weight.grad
    expected = 2 * of_weight @ layer.lora_A["default"].weight.T
    torch.testing.assert_close(layer.lora_B["default"].weight.grad, expected)


def test_checkpoints_hold_adapters_alone(prepared, adapted):
    held = load_file(adapted / "checkpoints/step-00000006/model.safetensors")
    (start,) = events(adapted, "config")
    assert start["parameters"] > start["trained"] == sum(map(torch.numel, held.values()))
    moments = load_file(adapted / "checkpoints/step-00000006/optimizer.safetensors")
    assert held
    assert all("lora_" in name for name in (*held, *moments))
    assert {name.rpartition("/")[0] for name in moments} == held.keys()
    assert sum(map(torch.numel, held.values())) < sum(
        map(torch.numel, load_file(prepared("nllb").parent / "init/model.safetensors").values())
    )


def test_a_resumed_run_ends_with_the_same_bits(prepared, adapted, tmp_path):
    train(configured(prepared("nllb"), *LORA, "train.updates=2"), tmp_path / "run")
    train(configured(prepared("nllb"), *LORA, "train.updates=6"), tmp_path / "run", resume=True)
    for name in ("model.safetensors", "optimizer.safetensors"):
        whole, parts = (load_file(run / "checkpoints/step-00000006" / name) for run in (adapted, tmp_path / "run"))
        assert whole.keys() == parts.keys()
        assert all(torch.equal(whole[key], parts[key]) for key in whole)
    other = configured(prepared("nllb"), *LORA, "train.updates=7", "model.lora.rank=8")
    with pytest.raises(ChangedSettingsError, match=r"model\.lora"):
        train(other, tmp_path / "run", resume=True)


def test_it_translates_scores_and_has_losses_with_merged_adapters(prepared, adapted, tmp_path):
    config = configured(prepared("nllb"), *LORA)
    store = open_prepared(config)
    model = create_model(config, store).eval()  # not merged
    model.load_state_dict(Run(adapted).choose("6").read_model())
    merged = load_model(Run(adapted).choose("6"), config.model.init)
    batch = torch.tensor([[5, 6, 7, model.symbols.eos]]), torch.tensor([4])
    torch.testing.assert_close(merged(*batch, *batch), model(*batch, *batch))
    base = create_model(configured(prepared("nllb")), store).eval()
    assert not torch.allclose(merged(*batch, *batch), base(*batch, *batch), atol=1e-3)
    lines = store.text("bb-en", "test", "source")[:8]
    assert load(adapted, which="6").translate(lines, source="bb", to="en", beam=1, max_length=18)
    scores, _ = score_run(Run(adapted), "test", SearchOptions(beam=1, max_length=10), Bars())
    assert set(scores["directions"]) == {f"{language}-en" for language in SIZES}
    signal = Signal("valid")
    losses = baseline(Run(adapted), tmp_path / "losses.json", signal, Processes(), Bars(), which="6")
    step = Step.of(config, store, model, None, Processes())
    seen = losses_of(step, {name: store.corpus(name, signal.split) for name in step.names}, 256)
    assert losses == pytest.approx(seen.means(step.names), abs=1e-5)


def test_the_losses_of_the_checkpoint_are_the_baseline(prepared, tmp_path):
    balance = "balance={strategy: chi-ibr, rho: 0.1, baseline: init}"
    for name, lora in {"lora": LORA, "all": LORA[1:]}.items():
        train(configured(prepared("nllb"), *lora, balance, "train.updates=1"), tmp_path / name)
    lora, every = (load_baseline(tmp_path / name / "baseline.json") for name in ("lora", "all"))
    assert lora == every


def greedy_by_peft(model, tokenizer, lines):
    tokenizer.src_lang = "tur_Latn"
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    english = tokenizer.convert_tokens_to_ids("eng_Latn")
    found = model.eval().generate(**batch, forced_bos_token_id=english, num_beams=1, max_length=20)
    return tokenizer.batch_decode(found, skip_special_tokens=True)


def test_peft_reads_the_adapter(prepared, adapted, tmp_path):
    import peft
    import transformers

    report = export(Run(adapted), tmp_path / "out", "6", adapter=True)
    assert report.identical == report.sentences > 40
    assert not (tmp_path / "out/model.safetensors").exists()
    about = yaml.safe_load((tmp_path / "out/README.md").read_text().split("---\n")[1])
    assert about["library_name"] == "peft"
    assert "base_model" not in about  # the Hub does not know a folder of this machine
    lines = (prepared("nllb").parent / "test.bb-en.bb").read_text().splitlines()[:8]
    ours = load(adapted, which="6").translate(lines, source="bb", to="en", beam=1, max_length=18)
    with quiet(transformers):
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
        base = transformers.AutoModelForSeq2SeqLM.from_pretrained(prepared("nllb").parent / "init")
        before = greedy_by_peft(base, tokenizer, lines)
        loaded = [
            peft.PeftModel.from_pretrained(base, tmp_path / "out"),
            peft.AutoPeftModelForSeq2SeqLM.from_pretrained(tmp_path / "out"),
            transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out"),
        ]
        assert [greedy_by_peft(model, tokenizer, lines) for model in loaded] == [ours] * 3
    assert before != ours


def test_an_adapter_for_the_hub_names_its_model_and_no_folder(adapted, tmp_path):
    sharing = Sharing(base_model="facebook/nllb-200-distilled-600M")
    report = export(Run(adapted), tmp_path / "out", "6", sharing, adapter=True)
    assert report.identical == report.sentences > 40
    card = (tmp_path / "out/README.md").read_text()
    assert yaml.safe_load(card.split("---\n")[1])["base_model"] == sharing.base_model
    adapter = json.loads((tmp_path / "out/adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == sharing.base_model
    folder = str(Run(adapted).config().model.init).encode()
    assert not any(folder in path.read_bytes() for path in (tmp_path / "out").iterdir())


@pytest.mark.parametrize("kind", ["nllb", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def test_a_merged_export_needs_no_peft(prepared, kind, tmp_path):
    config = configured(prepared(kind), *LORA)
    train(config, tmp_path / "run")
    report = export(Run(tmp_path / "run"), tmp_path / "out")
    assert report.sentences == report.identical > 40
    before, after = (
        load_file(folder / "model.safetensors") for folder in (prepared(kind).parent / "init", tmp_path / "out")
    )
    assert before.keys() <= after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(before[name].dim() == 2 and "embed" not in name for name in changed)
    if kind != "nllb":
        report = export(Run(tmp_path / "run"), tmp_path / "adapter", adapter=True)
        assert report.sentences == report.identical > 40


def test_adapters_of_attention_only(prepared):
    config = configured(prepared("nllb"), "model.lora={layers: attention}")
    names = create_model(config, open_prepared(config)).state_dict()
    assert names
    assert not any(".fc" in name for name in names)


# ------------------------------------------------------------------------------------------------- what is refused


def test_contradictions_are_refused_with_the_key(prepared, conf):
    with pytest.raises(ConfigError, match=r"model\.lora: .*model\.init"):
        load_config(conf, ["model.lora={rank: 4}"])
    with pytest.raises(ConfigError, match=r"model\.lora\.rnk: unknown key; did you mean 'rank'"):
        configured(prepared("nllb"), "model.lora={rnk: 4}")
    with pytest.raises(ConfigError, match=r"model\.lora\.rank"):
        configured(prepared("nllb"), "model.lora={rank: 0}")


def test_without_peft_the_extra_is_named(prepared, monkeypatch):
    config = configured(prepared("nllb"), *LORA)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"evenglot\[lora\]"):
        create_model(config, open_prepared(config))


def test_an_adapter_needs_a_run_that_has_one_and_its_checkpoint(prepared, tmp_path):
    file = copied(prepared("nllb"), tmp_path / "copy")
    train(configured(file, "train.updates=1"), tmp_path / "all")
    with pytest.raises(ValueError, match=r"--adapter: .*model\.lora"):
        export(Run(tmp_path / "all"), tmp_path / "out", adapter=True)
    assert not (tmp_path / "out").exists()
    train(configured(file, *LORA, "train.updates=1"), tmp_path / "run")
    (file.parent / "init").rename(file.parent / "moved")
    with pytest.raises(PretrainedError, match=r"init: .*model\.init in config\.yaml"):
        load(tmp_path / "run")
    save_checkpoint("nllb", file.parent / "init", seed=2)
    with pytest.raises(PretrainedError, match=r"init: .*model\.init in config\.yaml"):
        load(tmp_path / "run")


def test_settings_are_saved_with_the_run(adapted):
    saved = Run(adapted).config().model
    assert saved.lora is not None
    assert saved.lora.plain() == {"rank": 4, "alpha": 8.0, "dropout": 0.1, "layers": "all"}
    assert json.loads((adapted / "checkpoints/step-00000006/state.json").read_text())["state"]["lora"] == (
        saved.lora.plain()
    )
