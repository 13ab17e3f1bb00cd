"""CTranslate2 and torch agree, for random and trained models, and an export is usable without evenglot."""

import copy
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sacrebleu
import sentencepiece
import torch
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.vocabulary import train_vocabulary
from evenglot.export.ctranslate2 import Report, compare, export
from evenglot.inference.ctranslate2 import CTranslate2Engine, convert, weights
from evenglot.inference.ctranslate2.convert import converted
from evenglot.model.search import beam_search
from evenglot.progress import Bars
from evenglot.runs.model import load_model
from evenglot.runs.run import Run, RunError
from evenglot.symbols import EOS, PAD
from evenglot.training.train import train
from tests.model.cases import padded, small_model
from tests.patience import PATIENCE
from tests.tasks import CONFIG, WORDS, cipher, write_corpora

TO_ENGLISH = CONFIG
FROM_ENGLISH = CONFIG.replace("{from: [aa, bb, cc], to: en}", "{from: en, to: [aa, bb, cc]}").replace(
    "vocabulary: {size_shared: 60, size_other: 90", "vocabulary: {kind: joint, size_joint: 120"
)
FILES = {
    "README.md",
    "config.json",
    "evenglot.json",
    "model.bin",
    "source.model",
    "source_vocabulary.json",
    "target.model",
    "target_vocabulary.json",
    "translate.py",
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """With models this small, more threads are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(folder, config):
    write_corpora(folder)
    (folder / "conf.yaml").write_text(config)
    prepare(load_config(folder / "conf.yaml"), Bars())
    train(load_config(folder / "conf.yaml", ["train.updates=200"], check_files=False), folder / "run")
    return Run(folder / "run")


@pytest.fixture(scope="session")
def to_english(tmp_path_factory):
    """A run with two vocabularies, and tags that name the source language."""
    return trained(tmp_path_factory.mktemp("to_english"), TO_ENGLISH)


@pytest.fixture(scope="session")
def from_english(tmp_path_factory):
    """A run with one vocabulary, and tags that name the target language."""
    return trained(tmp_path_factory.mktemp("from_english"), FROM_ENGLISH)


@pytest.fixture(scope="session")
def exported(to_english, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "model"
    export(to_english, folder)
    return folder


def vocabularies(run):
    return [
        sentencepiece.SentencePieceProcessor(model_file=str(run.vocabulary / f"{side}.model"))
        for side in ("source", "target")
    ]


def without_store(run, folder):
    """A copy of the run whose configuration names a store that does not exist."""
    shutil.copytree(run.folder, folder)
    lines = Run(folder).config_file.read_text().replace(run.config().store.folder, str(folder / "nowhere"))
    Run(folder).config_file.write_text(lines)
    return Run(folder)


# ------------------------------------------------------------------------------------------------ random models


@pytest.fixture(scope="session", params=["separate", "joint"])
def random_model(request, tmp_path_factory):
    """A model with random weights, and the engine converted from it."""
    shared = request.param == "joint"
    source, target = exact_vocabulary(90), exact_vocabulary(90 if shared else 60)
    pieces = {"source_pieces": 90, "target_pieces": 90 if shared else 60, "share_embeddings": shared}
    model = small_model(seed=7, **pieces)
    with torch.no_grad():
        model.target_embedding.weight[EOS] *= 3  # so that some translations end and some are cut
    return model, engine_of(model, source, target, tmp_path_factory.mktemp("random"))


def exact_vocabulary(size):
    """A vocabulary of exactly this size with any version of SentencePiece, because random weights depend on it."""
    lines = [f"{word} {word.translate(cipher('aa'))}" for word in WORDS]
    made = train_vocabulary(lines, size=size, tags=[], model="bpe")  # unigram could learn fewer
    vocabulary = sentencepiece.SentencePieceProcessor(model_proto=made)
    assert len(vocabulary) == size
    return vocabulary


def engine_of(model, source, target, folder, quantization=None):
    convert(model, *([v.id_to_piece(i) for i in range(len(v))] for v in (source, target)), folder, quantization)
    for side, vocabulary in {"source": source, "target": target}.items():
        (folder / f"{side}.model").write_bytes(vocabulary.serialized_model_proto())
    about = {"format": "ctranslate2", "max_positions": model.shape.max_positions}
    (folder / "evenglot.json").write_text(json.dumps(about))
    return CTranslate2Engine(folder, threads=1)


def random_sources(model, number, seed=1):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 25, (number,), generator=generator).tolist()
    return [
        [*torch.randint(PAD + 1, model.shape.source_pieces, (n,), generator=generator).tolist(), EOS] for n in lengths
    ]


def with_torch(model, sources, **options):
    return beam_search(model, *padded(sources), **options)


def test_random_models_give_the_same_translations_and_scores(random_model):
    model, engine = random_model
    sources = random_sources(model, 200)
    limits = [40] * len(sources)
    ours = [best[0] for best in with_torch(model, sources, max_length=40)]
    found = engine.translate(sources, beam=5, length_penalty=1.0, max_length=limits, n_best=1)
    theirs = [best[0] for best in found]
    same = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine.pieces == other.pieces]
    assert len(same) >= 198
    assert len({mine.ended for mine in ours}) == 2
    for mine, other in same:
        assert other.score == pytest.approx(mine.score, abs=1e-4)
        assert other.log_probability == pytest.approx(mine.log_probability, abs=1e-3)
        assert other.ended == mine.ended


@pytest.mark.parametrize(("beam", "n_best", "penalty"), [(1, 1, 1.0), (1, 1, 0.6), (4, 4, 0.6), (5, 2, 0.0)])
def test_other_searches_agree_too_and_each_sentence_has_its_own_limit(random_model, beam, n_best, penalty):
    model, engine = random_model
    sources = random_sources(model, 60, seed=2)
    limits = [(1, 9, 30, 1000)[i % 4] for i in range(len(sources))]  # the last: more than the model has positions
    options = {"beam": beam, "length_penalty": penalty, "n_best": n_best}
    ours = with_torch(model, sources, max_length=torch.tensor(limits), **options)
    theirs = engine.translate(sources, max_length=limits, **options)
    same = [mine for mine, other in zip(ours, theirs, strict=True) if pieces_of(mine) == pieces_of(other)]
    assert len(same) >= 59
    assert not all(best[0].ended for best in ours)
    assert all(len(best[0].pieces) <= limit for best, limit in zip(theirs, limits, strict=True))


def pieces_of(hypotheses):
    return [hypothesis.pieces for hypothesis in hypotheses]


def test_translations_keep_their_order_whatever_the_batch(random_model):
    model, engine = random_model
    sources = random_sources(model, 70, seed=3)
    options = {"beam": 2, "length_penalty": 1.0, "n_best": 1}
    together = engine.translate(sources, max_length=[12 + i % 2 for i in range(70)], **options)
    alone = [engine.translate([s], max_length=[12 + i % 2], **options)[0] for i, s in enumerate(sources)]
    assert sum(pieces_of(a) == pieces_of(b) for a, b in zip(together, alone, strict=True)) >= 69


def test_nothing_in_nothing_out(random_model):
    assert random_model[1].translate([], beam=5, length_penalty=1.0, max_length=[], n_best=1) == []


@pytest.mark.parametrize(
    ("length", "limits", "fact"),
    [
        (65, [9], r"^source: .*\b65\b.*\b64\b"),
        (5, [0], r"^max_length: .*\b1\b.*\b0\b"),
        (5, [9, 9], r"^max_length: .*\b1\b.*\b2\b"),
    ],
)
def test_the_engine_refuses_what_it_cannot_do(random_model, length, limits, fact):
    with pytest.raises(ValueError, match=fact):
        random_model[1].translate([[3] * length], beam=5, length_penalty=1.0, max_length=limits, n_best=1)


def test_the_engine_wants_an_export(tmp_path):
    with pytest.raises(ValueError, match=f"^{tmp_path}: .*evenglot.json"):
        CTranslate2Engine(tmp_path)


def test_conversion_leaves_the_model_as_it_was(to_english, tmp_path):
    source, target = vocabularies(to_english)
    model = small_model(source_pieces=len(source), target_pieces=len(target))
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    engine_of(model, source, target, tmp_path, "int8")
    assert all(torch.equal(weights, before[name]) for name, weights in model.state_dict().items())


def test_weights_that_are_shared_are_stored_once(tmp_path):
    pieces = ["</s>", "<unk>", "<pad>", *(f"p{i}" for i in range(3, 2000))]
    sizes = []
    for shared in (False, True):
        (folder := tmp_path / str(shared)).mkdir()
        model = small_model(source_pieces=2000, target_pieces=2000, share_embeddings=shared)
        convert(model, pieces, pieces, folder)
        assert {path.name for path in folder.iterdir()} == {"model.bin", "config.json", "shared_vocabulary.json"}
        sizes.append((folder / "model.bin").stat().st_size)
    assert sizes[0] - sizes[1] == pytest.approx(2000 * 32 * 4, rel=0.01)


@pytest.mark.parametrize(
    ("pieces", "fact"),
    [
        (["</s>", "<unk>", "<pad>"], r"\b3\b.*\b4\b"),
        (["</s>", "<unk>", "<pad>", "<unk>"], "duplicate"),
        (["<unk>", "</s>", "<pad>", "a"], r"</s>.*\b0\b.*'<unk>'"),
    ],
)
def test_pieces_that_are_not_those_of_the_model_are_refused(tmp_path, pieces, fact):
    model = small_model(source_pieces=4, target_pieces=4)
    with pytest.raises(ValueError, match=f"^target vocabulary: .*{fact}"):
        convert(model, ["</s>", "<unk>", "<pad>", "a"], pieces, tmp_path)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------- a trained run


def test_an_export_is_complete_and_compared_with_torch(to_english, tmp_path):
    report = export(to_english, tmp_path / "model")
    assert report.compared == 50
    assert report.identical + report.ties == 50
    assert report.largest_score_difference < 1e-4
    assert {path.name for path in (tmp_path / "model").iterdir()} == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    readme = (tmp_path / "model" / "README.md").read_text()
    for fact in ("aa-en, bb-en, cc-en", "source language", "`>>aa<<`, `>>bb<<`, `>>cc<<`", "50 sentences", "`run`"):
        assert fact in readme


def test_the_other_way_with_one_vocabulary(from_english, tmp_path):
    report = export(from_english, tmp_path / "model")
    assert report.identical + report.ties == report.compared == 50
    assert (tmp_path / "model" / "shared_vocabulary.json").exists()
    assert "target language" in (tmp_path / "model" / "README.md").read_text()


# The script must work without torch and evenglot, which are installed in the tests' Python.
ONLY_CTRANSLATE2 = """
import runpy, sys
for name in ("torch", "transformers", "evenglot"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
assert all(sys.modules[name] is None for name in ("torch", "transformers", "evenglot"))
"""


def run_script(folder, *languages, text=""):
    command = [sys.executable, "-I", "-c", ONLY_CTRANSLATE2, str(folder / "translate.py"), *languages]
    return subprocess.run(command, input=text.encode(), capture_output=True, cwd="/", timeout=PATIENCE, check=False)


def translations(run, language, sentences):
    model = load_model(run.best())
    source, target = vocabularies(run)
    start = source.piece_to_id(f">>{language}<<")
    sources = [[start, *source.encode(sentence), EOS] for sentence in sentences]
    return target.decode([best[0].pieces for best in with_torch(model, sources)])


@pytest.mark.parametrize("way", ["to_english", "from_english"])
def test_the_script_translates_as_torch_does_without_us(way, request, tmp_path):
    run = request.getfixturevalue(way)
    export(run, tmp_path / "model")
    folder = run.folder.parent
    name = "test.bb-en.bb" if way == "to_english" else "test.bb-en.en"
    sentences = [*(folder / name).read_text().splitlines(), ">>aa<< gonas", "</s>", "ελ ☃ gonas"]
    done = run_script(tmp_path / "model", "bb", text="\n".join([*sentences, "", " \n"]))
    assert done.returncode == 0, done.stderr.decode()
    *lines, empty, blank = done.stdout.decode().split("\n")[:-1]
    assert lines == translations(run, "bb", sentences)
    assert empty == blank == ""


def test_the_run_learnt_to_translate(to_english):
    """Otherwise the comparisons of translations would be weak tests."""
    folder = to_english.folder.parent
    sentences, english = ((folder / f"test.aa-en.{lang}").read_text().splitlines() for lang in ("aa", "en"))
    assert sacrebleu.corpus_chrf(translations(to_english, "aa", sentences), [english]).score > 60


def test_text_that_looks_like_a_tag_is_text(exported, tmp_path):
    """With a vocabulary that has none of its letters, the tag is one unknown token."""
    shutil.copytree(exported, tmp_path / "model")
    vocabulary = train_vocabulary(["αβγ δε", "εδ γβα", "αδ βε γ"], size=20, tags=[">>aa<<", ">>bb<<", ">>cc<<"])
    (tmp_path / "model" / "source.model").write_bytes(vocabulary)
    (tmp_path / "model" / "evenglot.json").write_text(json.dumps({"files": {}}))  # not to be taken for damage
    tag, unknown = run_script(tmp_path / "model", "bb", text=">>aa<<\n☃\n").stdout.decode().splitlines()
    assert tag == unknown


def test_the_script_asks_for_a_language_it_knows(exported):
    for languages in ([], ["fr"]):
        done = run_script(exported, *languages)
        assert done.returncode == 1
        assert "aa, bb, cc" in done.stderr.decode()


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16", "bfloat16"])
def test_fewer_bits_are_reported_not_refused(to_english, exported, tmp_path, quantization):
    report = export(to_english, tmp_path / "model", quantization)
    assert report.compared == 50
    assert 25 < report.identical + report.ties <= 50
    assert 0 < report.largest_score_difference < 1
    sizes = [(folder / "model.bin").stat().st_size for folder in (tmp_path / "model", exported)]
    assert sizes[0] < 0.75 * sizes[1]  # positions and names of weights are not quantized
    assert quantization in (tmp_path / "model" / "README.md").read_text()


def test_without_a_store_the_sentences_given_are_compared(to_english, tmp_path):
    run = without_store(to_english, tmp_path / "run")
    lines = (to_english.folder.parent / "test.cc-en.cc").read_text().splitlines()
    assert export(run, tmp_path / "model", sentences={"cc-en": lines[:7]}).compared == 7
    report = export(run, tmp_path / "model")
    assert report == Report()
    assert str(report)[1:] in (tmp_path / "model" / "README.md").read_text()  # the first letter is upper case there
    with pytest.raises(ValueError, match="^>>fr<<: "):
        export(run, tmp_path / "model", sentences={"fr-en": ["bonjour"]})


# ---------------------------------------------------------------------------------------------------- comparison


class OtherEngine:
    """Exchanges two subwords in the translations of an engine."""

    def __init__(self, engine, one, other):
        self.engine, self.changed = engine, {one: other, other: one}

    def translate(self, sources, **options):
        found = self.engine.translate(sources, **options)
        return [[self._changed(best) for best in hypotheses] for hypotheses in found]

    def _changed(self, hypothesis):
        return dataclasses.replace(hypothesis, pieces=[self.changed.get(piece, piece) for piece in hypothesis.pieces])


def test_translations_of_the_same_score_are_ties_and_others_are_not(random_model, tmp_path):
    model, engine = copy.deepcopy(random_model[0]), random_model[1]
    sources = random_sources(model, 150)
    said = [(source, best[0].pieces) for source, best in zip(sources, with_torch(model, sources), strict=True)
            if best[0].ended and best[0].pieces]  # fmt: skip
    (common, _), *_, (rare, _) = Counter(piece for _, pieces in said for piece in pieces).most_common()
    ended = [source for source, _ in said]
    assert compare(model, engine, ended).identical == len(ended)
    assert compare(model, OtherEngine(engine, common, rare), ended).different > 0
    with torch.no_grad():  # now no model could decide between the two
        model.target_embedding.weight[rare] = model.target_embedding.weight[common]
    size = model.shape.source_pieces, model.shape.target_pieces
    engine = engine_of(model, *map(exact_vocabulary, size), tmp_path)
    tied = [s for s, mine in zip(sources, with_torch(model, sources), strict=True) if mine[0].ended]
    report = compare(model, OtherEngine(engine, common, rare), tied)
    assert report.ties > 0
    assert report.different == 0


def test_an_export_that_does_something_else_is_not_written(to_english, tmp_path, monkeypatch):
    export(to_english, tmp_path / "old")
    before = (tmp_path / "old" / "model.bin").read_bytes()
    right = weights._fill_linear

    def wrong(spec, linear):
        right(spec, linear)
        spec.bias = spec.bias + 0.3

    monkeypatch.setattr(weights, "_fill_linear", wrong)
    for name in ("old", "new"):
        with pytest.raises(ValueError, match=rf"/{name}: .*\b50 sentences .*[0-9]+ identical, [1-9][0-9]* different"):
            export(to_english, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old" / "model.bin").read_bytes() == before


# ------------------------------------------------------------------------------------------------------- damaged


def _flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", sorted(FILES - {"README.md", "translate.py"}))
def test_a_damaged_export_is_refused(exported, tmp_path, name):
    folder = Path(shutil.copytree(exported, tmp_path / "model"))
    _flip(folder / name)
    with pytest.raises(ValueError, match=f"/model.*{re.escape(name)}"):
        CTranslate2Engine(folder, 1)


@pytest.mark.parametrize("name", ["model.bin", "source.model"])
def test_its_script_refuses_it_too(exported, tmp_path, name):
    folder = Path(shutil.copytree(exported, tmp_path / "model"))
    _flip(folder / name)
    done = run_script(folder, "aa", text="gonas\n")
    assert done.returncode == 1
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert str(folder / name) in line


def test_a_damaged_conversion_of_a_run_is_made_again(to_english):
    chosen = to_english.best()
    model = load_model(chosen)
    file = converted(to_english, chosen, model) / "model.bin"
    before = file.read_bytes()
    _flip(file)
    assert converted(to_english, chosen, model) == file.parent
    assert file.read_bytes() == before


# ------------------------------------------------------------------------------------------------------- refused


def test_only_an_export_is_written_over(to_english, exported, tmp_path):
    (tmp_path / "empty").mkdir()
    shutil.copytree(exported, tmp_path / "old")
    (tmp_path / "old" / "model.bin").write_bytes(b"")
    for name in ("empty", "old"):
        export(to_english, tmp_path / name)
        assert (tmp_path / name / "model.bin").read_bytes() == (exported / "model.bin").read_bytes()
    shutil.copytree(exported, tmp_path / "with_more")
    (tmp_path / "with_more" / "LICENCE").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("with_more", "mine", "file"):
        with pytest.raises(ValueError, match=f"/{name}: "):
            export(to_english, tmp_path / name)
    assert (tmp_path / "with_more" / "LICENCE").read_text() == (tmp_path / "file").read_text() == "mine"


def test_a_run_must_have_a_model(to_english, tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError, match=r"/run: .*config\.yaml"):
        export(Run(tmp_path / "run"), tmp_path / "model")
    shutil.copy(to_english.config_file, tmp_path / "run")
    with pytest.raises(RunError, match="/run: .*checkpoint"):
        export(Run(tmp_path / "run"), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_unknown_types_are_refused(to_english, tmp_path):
    with pytest.raises(ValueError, match=r"^quantization: .*float32, float16, bfloat16, int16, int8.*'int4'"):
        export(to_english, tmp_path / "model", "int4")


def test_without_the_package_there_is_advice(to_english, tmp_path):
    program = f"""
import sys
sys.modules["ctranslate2"] = None
from pathlib import Path
from evenglot.export.ctranslate2 import export
from evenglot.runs.run import Run
try:
    export(Run(Path({str(to_english.folder)!r})), Path({str(tmp_path / "model")!r}))
except ValueError as error:
    print(error)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert 'pip install "evenglot[ct2]"' in done.stdout, done.stderr
    assert not (tmp_path / "model").exists()


def test_the_command_says_where_the_model_is(to_english, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["export", str(to_english.folder), "--to", "ctranslate2", "--out", "models/first", "--verbose"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert re.search(r"^export.*: \d+ s$", said.stderr, re.MULTILINE), "what takes long is said"
    assert said.stdout.startswith("models/first: 50 sentences ")
    assert (tmp_path / "models" / "first" / "model.bin").is_file()
