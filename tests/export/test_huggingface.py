"""An exported folder gives the same translations with transformers, without evenglot."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import sentencepiece
import torch
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file

from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.store import open_store
from evenglot.directions import Direction, tag, tag_kind
from evenglot.export import huggingface, model_card
from evenglot.export.hub import Sharing
from evenglot.export.huggingface import Report, export
from evenglot.extras import quiet
from evenglot.model.search import beam_search, greedy
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import Run, RunError
from evenglot.symbols import EOS, PAD
from evenglot.training.train import train
from tests.model.cases import small_model
from tests.tasks import CONFIG, write_corpora

OUT_OF_ENGLISH = "directions: {from: en, to: [aa, bb, cc]}"
VARIANTS = {
    "to-english": CONFIG,
    "from-english": CONFIG.replace("directions: {from: [aa, bb, cc], to: en}", OUT_OF_ENGLISH),
    "joint": CONFIG.replace("vocabulary: {", "vocabulary: {kind: joint, size_joint: 100, "),
}
POSITIONS = 64
ODD = [
    "",
    "   ",
    "dqdv  uhoх",
    " dqdv",
    "dqdv\tuho",
    "dqdv\u00a0uho\u00a0",
    "漢字 dqdv €€ 🙂",
    ">>en<< dqdv",
    "dqdv >>aa<< uho >>bb<<",
    "</s> dqdv <pad></s><unk>",
    "dqdv </s>",
    "▁dqdv ▁",
    "<< >> <<",
    "dqdv\nuho",
    "ﬁ ① Å",
]
USE = """
import json, sys, warnings, torch
sys.modules["evenglot"] = None  # importing it is an error
warnings.simplefilter("ignore")
torch.set_num_threads(1)  # more threads do not help a tiny model
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
answers = {}
for name, (folder, sentences) in json.load(sys.stdin).items():
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer(sentences, return_tensors="pt", padding=True)
    greedy = model.generate(**batch, num_beams=1)
    answers[name] = {
        "classes": [type(tokenizer).__name__, type(model).__name__],
        "read": tokenizer(sentences)["input_ids"],
        "greedy": greedy.tolist(),
        "text": tokenizer.batch_decode(greedy, skip_special_tokens=True),
        "beam": model.generate(**batch).tolist(),
    }
assert not [module for module in sys.modules if module.startswith("evenglot.")]
json.dump(answers, sys.stdout)
"""


@dataclass(frozen=True)
class Trained:
    """A run, its export, and the test sentences with their tags."""

    run: Run
    folder: Path
    report: Report
    tagged: list[str]

    def pieces(self, side):
        return sentencepiece.SentencePieceProcessor(model_file=str(self.run.vocabulary / f"{side}.model"))

    def read(self, tagged):
        """The ids that our own model gets."""
        name, text = tagged.split(" ", 1)
        pieces = self.pieces("source")
        return [pieces.piece_to_id(name), *pieces.encode(text), EOS]

    def batch(self):
        ids = [self.read(sentence) for sentence in self.tagged]
        lengths = torch.tensor([len(line) for line in ids])
        width = int(lengths.max())
        return torch.tensor([line + [PAD] * (width - len(line)) for line in ids]), lengths


def tagged_sentences(config, split):
    kind = tag_kind(config.data.directions)
    store = open_store(config.store.folder)
    return [
        f"{tag(direction, kind)} {line}"
        for direction in config.data.directions
        for line in store.text(direction.name, split, "source")
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Each variant, briefly trained and exported."""
    found = {}
    for name, text in VARIANTS.items():
        folder = tmp_path_factory.mktemp(name)
        write_corpora(folder)
        (folder / "conf.yaml").write_text(text)
        # Few positions, so that translations of small models that do not end are cut early.
        config = load_config(folder / "conf.yaml", ["train.updates=150", f"model.max_positions={POSITIONS}"])
        prepare(config, Bars())
        train(config, folder / "run")
        run = Run(folder / "run")
        found[name] = Trained(run, folder / "out", export(run, folder / "out"), tagged_sentences(config, "test"))
    return found


@pytest.fixture(scope="module")
def fresh(trained):
    """Outputs of transformers for these folders, in a separate process."""
    asked = {name: (str(one.folder), one.tagged) for name, one in trained.items()}
    done = subprocess.run(
        [sys.executable, "-I", "-c", USE], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=VARIANTS)
def variant(request):
    return request.param


def without_ends(lines):
    """The ids between the first </s> and the next."""
    return [line[1:][: line[1:].index(EOS)] if EOS in line[1:] else line[1:] for line in lines]


# --------------------------------------------------------------------------------------------- the same translations


def test_it_loads_with_the_auto_classes(fresh, variant):
    assert fresh[variant]["classes"] == ["MarianTokenizer", "MBartForConditionalGeneration"]


def test_sentences_are_read_alike(trained, fresh, variant):
    assert fresh[variant]["read"] == [trained[variant].read(sentence) for sentence in trained[variant].tagged]


def test_greedy_translations_are_identical(trained, fresh, variant):
    one = trained[variant]
    ours = greedy(load_model(one.run.best()), *one.batch(), max_length=POSITIONS)
    theirs = without_ends(fresh[variant]["greedy"])
    assert len(set(map(tuple, ours))) > 30  # the model does not repeat a few outputs
    assert len(ours) == 90
    assert sum(left == right for left, right in zip(ours, theirs, strict=True)) >= 0.99 * 90
    assert fresh[variant]["text"] == [one.pieces("target").decode(line).strip() for line in theirs]


def test_by_default_it_searches_as_our_beam_does(trained, fresh, variant, record_property):
    one = trained[variant]
    ours = [best[0].pieces for best in beam_search(load_model(one.run.best()), *one.batch(), max_length=POSITIONS)]
    theirs = without_ends(fresh[variant]["beam"])
    same = sum(left == right for left, right in zip(ours, theirs, strict=True))
    record_property("identical_beam_5", same)
    print(f"{variant}: {same} of {len(ours)} translations of beam 5 are identical")
    assert same >= 0.9 * len(ours)  # lower than for greedy search, because the searches may order ties differently


def test_the_report_says_what_was_compared(trained, variant):
    report = trained[variant].report
    assert (report.folder, report.sentences) == (trained[variant].folder, 50)
    assert report.identical == 50
    assert report.logit_difference < 1e-4
    assert str(report).startswith(f"{report.folder}: 50 of 50 ")
    assert "1.2e-06" in str(replace(report, logit_difference=1.2e-6))
    assert not re.search(r"\de[+-]\d", str(replace(report, logit_difference=0.0)))


def test_odd_text_is_read_as_we_read_it(trained, variant):
    tokenizer = tokenizer_of(trained[variant].folder)
    name = trained[variant].tagged[0].split()[0]
    for text in ODD:
        assert tokenizer(f"{name} {text}")["input_ids"] == trained[variant].read(f"{name} {text}"), text


def tokenizer_of(folder):
    import transformers

    with quiet(transformers):
        return transformers.AutoTokenizer.from_pretrained(folder)


def test_any_text_is_read_as_we_read_it(trained):
    one = trained["to-english"]
    tokenizer, pieces = tokenizer_of(one.folder), one.pieces("source")
    start = pieces.piece_to_id(">>aa<<")

    @given(st.text() | st.text("adqv<>/ \u3000\t\u200b▁漢", max_size=12))
    @example("\0")
    def check(text):
        assert tokenizer(f">>aa<< {text}")["input_ids"] == [start, *pieces.encode(text), EOS]

    check()


def test_half_of_the_precision_still_rules_out_padding(trained):
    bias = huggingface.mbart_weights(load_model(trained["to-english"].run.best()))["final_logits_bias"]
    assert torch.isfinite(bias.half()).all()
    assert bias[0, PAD] == -1e4


@pytest.mark.parametrize("pieces", [(30, 40), (40, 30)])
def test_rows_above_the_smaller_vocabulary_are_never_said(pieces):
    model = small_model(source_pieces=pieces[0], target_pieces=pieces[1])
    weights = huggingface.mbart_weights(model)
    assert {len(weights[f"model.{stack}.embed_tokens.weight"]) for stack in ("encoder", "decoder")} == {40}
    said = (weights["final_logits_bias"][0] == 0).nonzero().flatten().tolist()
    assert said == [piece for piece in range(pieces[1]) if piece != PAD]


# ------------------------------------------------------------------------------------------------------ the folder


def test_the_folder_has_these_files(trained, variant):
    assert {path.name for path in trained[variant].folder.iterdir()} == huggingface.WRITTEN
    assert len({path.stat().st_mode for path in trained[variant].folder.iterdir()}) == 1  # the same permissions


def test_generation_settings(trained):
    settings = json.loads((trained["joint"].folder / "generation_config.json").read_text())
    assert settings["decoder_start_token_id"] == settings["eos_token_id"] == EOS
    assert (settings["num_beams"], settings["length_penalty"], settings["max_length"]) == (5, 1.0, POSITIONS + 1)


def test_one_embedding_is_stored_once(trained):
    names = load_file(trained["joint"].folder / "model.safetensors")
    tables = [name for name in names if "shared" in name or "embed_tokens" in name or "lm_head" in name]
    assert tables == ["model.shared.weight"]


def card_of(folder):
    _, front_matter, text = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front_matter), text


def test_the_card_tells_languages_sizes_strategy_and_tags(trained):
    about, text = card_of(trained["to-english"].folder)
    assert about["language"] == ["aa", "bb", "cc", "en"]
    assert about["pipeline_tag"] == "translation"
    assert "| bb-en | `>>bb<<` | 150 |" in text
    assert "`proportional`" in text
    assert "source language: `>>aa<<`, `>>bb<<`, `>>cc<<`" in text
    assert "transformers 5" in text or "transformers 4" in text
    assert "`evenglot score`" in text  # no scores yet
    assert "50 validation sentences: 50 " in text


def test_the_card_of_the_other_way_names_target_languages(trained):
    _, text = card_of(trained["from-english"].folder)
    assert "| en-cc | `>>cc<<` | 50 |" in text
    assert "target language" in text
    assert "source language" not in text


def test_languages_in_the_front_matter_are_text_and_without_script():
    directions = [Direction("no", "en"), Direction("zh_Hans", "en"), Direction("zh_Hant", "en")]
    found = model_card._front_matter("name", directions, None, Sharing(), "transformers")
    assert yaml.safe_load(found)["language"] == ["en", "no", "zh"]


SCORES = {
    "split": "test",
    "signature": {"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nw:2"},
    "directions": {"aa-en": {"bleu": 31.256, "chrf": 55.1, "lines": 30}, "cc-en": {"bleu": 2, "chrf": 9, "lines": 30}},
    "macro": {"bleu": 16.63, "chrf": 32.05},
    "worst": {"direction": "cc-en", "bleu": 2, "chrf": 9},
}


@pytest.fixture
def run_with_scores(trained):
    run = trained["to-english"].run
    yield run
    (run.folder / "scores.json").unlink()


def test_the_card_has_the_scores_and_a_second_export_replaces_the_first(run_with_scores, trained, tmp_path):
    (run_with_scores.folder / "scores.json").write_text(json.dumps(SCORES))
    folder = trained["to-english"].folder
    before = (folder / "model.safetensors").read_bytes()
    export(run_with_scores, folder)
    _, text = card_of(folder)
    assert "| aa-en | 31.26 | 55.10 | 30 |" in text
    assert "| mean | 16.63 | 32.05 |" in text
    assert "`nrefs:1|tok:13a`" in text
    assert "Lowest: cc-en" in text
    assert (folder / "model.safetensors").read_bytes() == before


# ---------------------------------------------------------------------------------------------------------- refused


def test_damaged_scores_are_named(run_with_scores, tmp_path):
    (run_with_scores.folder / "scores.json").write_text('{"split": "test"}')
    with pytest.raises(ValueError, match=r"scores\.json: .*`evenglot score`"):
        export(run_with_scores, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_without_its_store_nothing_is_compared(trained, tmp_path):
    one = trained["joint"]
    store = Path(one.run.config().store.folder)
    store.rename(store.with_name("away"))
    try:
        report = export(one.run, tmp_path / "out")
    finally:
        store.with_name("away").rename(store)
    assert report.sentences == 0
    _, text = card_of(tmp_path / "out")
    assert "0 validation sentences" not in text
    assert "| aa-en | `>>aa<<` | 600 |" in text


def all_a_little_likelier(weights):
    weights["final_logits_bias"] += 0.01


def positions_from_one_on(weights):
    for stack in ("encoder", "decoder"):
        table = weights[f"model.{stack}.embed_positions.weight"]
        table.copy_(table.roll(-1, 0))


@pytest.mark.parametrize(
    ("damage", "identical"), [(all_a_little_likelier, "50 of 50"), (positions_from_one_on, "[0-4]?[0-9] of 50")]
)
def test_a_model_that_is_not_the_same_is_not_written(trained, tmp_path, monkeypatch, damage, identical):
    right = huggingface.mbart_weights

    def wrong(model):
        weights = right(model)
        damage(weights)
        return weights

    monkeypatch.setattr(huggingface, "mbart_weights", wrong)
    with pytest.raises(ValueError, match=f"/out: {identical}"):
        export(trained["joint"].run, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_that_reads_differently_is_not_written(trained, tmp_path, monkeypatch):
    source, target = huggingface.VOCABULARIES.values()
    monkeypatch.setattr(huggingface, "VOCABULARIES", {"source": target, "target": source})
    with pytest.raises(ValueError, match="/out: .*tokenizer.*'>>aa<< .*'"):
        export(trained["to-english"].run, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_other_folders_are_left_alone(trained, tmp_path):
    run = trained["joint"].run
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    for folder in (tmp_path / "mine", tmp_path / "mine" / "config.json", run.folder):
        with pytest.raises(ValueError, match=f"^{folder}: .*--out"):
            export(run, folder)
    assert (tmp_path / "mine" / "config.json").read_text() == "{}"


def test_an_export_with_more_in_it_is_left_alone(trained):
    one = trained["joint"]
    (one.folder / "notes.txt").write_text("mine")
    try:
        with pytest.raises(ValueError, match=r"notes\.txt.*--out"):
            export(one.run, one.folder)
    finally:
        (one.folder / "notes.txt").unlink()


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(RunError, match=f"^{tmp_path}: "):
        export(Run(tmp_path), tmp_path / "out")


def test_without_transformers(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r'pip install "evenglot\[hf\]"'):
        export(trained["joint"].run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_module_is_imported_without_transformers():
    code = "import sys, evenglot.export.huggingface; assert 'transformers' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
