"""Validation, against losses of single sentences and sacreBLEU; and what follows: the best, patience, averages."""

import numpy as np
import pytest
import sacrebleu
import torch

from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
from evenglot.runs.checkpoint import open_checkpoint
from evenglot.runs.checkpoint_folder import checkpoints
from evenglot.runs.model import load_model
from evenglot.runs.run import Run
from evenglot.symbols import EOS, PAD
from evenglot.training.train import train
from tests.tasks import CONFIG, WORDS, cipher
from tests.training.helpers import events, store_of, total_loss

NAMES = ["aa-en", "bb-en", "cc-en"]


# ------------------------------------------------------------------------------------------------ its numbers


@pytest.fixture(scope="module")
def validated(conf, tmp_path_factory):
    """A run with a checkpoint for each of its validations: config and folder."""
    overrides = ["train.updates=16", "train.validate_every=8", "train.keep_last=9"]
    config, folder = load_config(conf, overrides, check_files=False), tmp_path_factory.mktemp("validated")
    train(config, folder)
    return config, folder


def validations(validated):
    """Each `validation` event, and the model it is of."""
    models = {found.step: load_model(found) for found in checkpoints(validated[1] / "checkpoints")}
    found = [(event, models[event["step"]]) for event in events(validated[1], "validation")]
    assert [event["step"] for event, _ in found] == [8, 16]
    return found


def test_losses_are_those_of_one_sentence_after_the_other_without_dropout(validated, conf):
    store = store_of(validated[0])
    for event, model in validations(validated):
        sums, tokens = np.array([total_loss(model, store.corpus(name, "valid")) for name in NAMES]).T
        losses = sums / tokens
        assert [event["loss"][name] for name in NAMES] == pytest.approx(losses, rel=1e-5)
        assert event["pooled"] == pytest.approx(sums.sum() / tokens.sum(), rel=1e-5)
        assert event["macro"] == pytest.approx(losses.mean(), rel=1e-5)
        assert event["worst"] == pytest.approx(losses.max(), rel=1e-5)
        for name, loss in zip(NAMES, sums, strict=True):
            text = (conf.parent / f"valid.{name}.en").read_text().splitlines()
            characters = sum(len(line) + 1 for line in text)  # a word's piece holds the space before it
            assert event["loss_per_character"][name] == pytest.approx(loss / characters, rel=1e-5)


# --------------------------------------------------------------------------------------------- a lopsided task

LOPSIDED = """\
data:
  directions:
  - {src: aa, tgt: en, valid: "valid.{pair}.{lang}"}
  - {src: cc, tgt: en, valid: "valid.{pair}.{lang}"}
  - bb-en
  train: train.{pair}.{lang}
"""
PAIRS = {("aa", "train"): 300, ("aa", "valid"): 60, ("bb", "train"): 20, ("cc", "train"): 20, ("cc", "valid"): 20}


@pytest.fixture(scope="module")
def lopsided(tmp_path_factory):
    """aa can be learnt. cc is noise: its few pairs can be learnt by heart, which is no use. bb is never validated."""
    folder = tmp_path_factory.mktemp("lopsided")
    random = np.random.default_rng(3)
    for (language, split), size in PAIRS.items():
        english, other = ([" ".join(random.choice(WORDS, 4)) for _ in range(size)] for _ in range(2))
        foreign = [line.translate(cipher(language)) for line in (other if language == "cc" else english)]
        for lang, lines in {"en": english, language: foreign}.items():
            (folder / f"{split}.{language}-en.{lang}").write_text("".join(f"{line}\n" for line in lines))
    file = folder / "conf.yaml"
    rest = CONFIG[CONFIG.index("clean:") :]
    for old, new in {"dropout: 0.1": "dropout: 0", "warmup: 10": "warmup: 0", "update: 1024": "update: 512"}.items():
        rest = rest.replace(old, new)
    file.write_text(LOPSIDED + rest)
    prepare(load_config(file), Bars())

    def made(*overrides):
        return load_config(file, ["train.updates=120", "train.validate_every=5", *overrides])

    return made


@pytest.fixture(scope="module")
def overtrained(lopsided, tmp_path_factory):
    """A run that learns cc by heart, selecting by the worst direction; config and folder."""
    overrides = ["balance.strategy=uniform", "train.select=worst", "train.chrf_sentences=6"]
    config, folder = lopsided(*overrides), tmp_path_factory.mktemp("worst")
    train(config, folder)
    return config, folder


def test_directions_without_validation_text_are_left_out(overtrained):
    for event in events(overtrained[1], "validation"):
        assert sorted(event["loss"]) == sorted(event["loss_per_character"]) == ["aa-en", "cc-en"]
    assert sorted(events(overtrained[1], "step")[0]["losses"]) == NAMES


def translate(model, source):
    """Greedy search without a cache: all of the sentence is decoded again for each piece."""
    source = torch.from_numpy(source.astype(np.int64))[None]
    memory = model.encode(source, torch.tensor([source.size(1)]))
    pieces = [EOS]
    while len(pieces) <= 3 * source.size(1) + 10:
        logits = model.decode(torch.tensor([pieces]), memory)[0, -1] @ model.output_embedding.T
        logits[PAD] = -torch.inf
        pieces.append(int(logits.argmax()))
        if pieces[-1] == EOS:
            return pieces[1:-1]
    return pieces[1:]


def test_chrf_is_what_sacrebleu_says_of_greedy_translations(overtrained):
    config, folder = overtrained
    store, event = store_of(config), events(folder, "validation")[-1]
    model = load_model(checkpoints(folder / "checkpoints")[-1])
    assert sorted(event["chrf"]) == ["aa-en", "cc-en"]
    for name, score in event["chrf"].items():
        source = store.corpus(name, "valid").source
        with torch.no_grad():
            translations = store.vocabulary("target").decode([translate(model, source[i]) for i in range(6)])
        references = store.text(name, "valid", "target")[:6]
        assert score == pytest.approx(sacrebleu.corpus_chrf(translations, [references]).score)
        assert score > 1


def test_the_best_checkpoint_is_best_by_what_was_selected(lopsided, overtrained, tmp_path):
    train(lopsided("balance.strategy=uniform", "train.select=pooled"), tmp_path)
    best = {}
    for select, folder in {"worst": overtrained[1], "pooled": tmp_path}.items():
        scores = {event["step"]: event[select] for event in events(folder, "validation")}
        assert [event["score"] for event in events(folder, "validation")] == list(scores.values())
        found = Run(folder).best()
        assert (found.step, found.score) == min(scores.items(), key=lambda item: item[1])
        (done,) = events(folder, "done")
        assert (done["best_step"], done["best_score"]) == (found.step, found.score)
        best[select] = found.step
    assert best["worst"] < best["pooled"] <= 120  # they do not agree on this task


def test_patience_ends_a_run_after_so_many_validations_without_a_new_best(lopsided, overtrained, tmp_path):
    config = lopsided("balance.strategy=uniform", "train.select=worst", "train.patience=3")
    assert train(config, tmp_path) == "patience"
    scores = [event["score"] for event in events(tmp_path, "validation")]
    assert int(np.argmin(scores)) == len(scores) - 4
    flags = [event["best"] for event in events(tmp_path, "validation")]
    assert flags == [score == min(scores[: position + 1]) for position, score in enumerate(scores)]
    unlimited = [event["score"] for event in events(overtrained[1], "validation")]
    assert scores == unlimited[: len(scores)]
    assert len(scores) < len(unlimited)


def test_overfitting_is_warned_of_once_for_each_direction(overtrained):
    warnings = [event for event in events(overtrained[1], "warning") if event["kind"] == "overfitting"]
    (warning,) = [event for event in warnings if event["direction"] == "cc-en"]
    losses = {event["step"]: event["loss"]["cc-en"] for event in events(overtrained[1], "validation")}
    risen = [s for s, loss in losses.items() if loss > 1.03 * min(v for t, v in losses.items() if t <= s)]
    assert warning["step"] in risen
    assert len(risen) >= 3  # there were more occasions
    assert len(warnings) == len({event["direction"] for event in warnings})
    assert not any(event["direction"] == "bb-en" for event in warnings)


def test_without_any_validation_text_the_best_is_the_last(lopsided, tmp_path):
    config = lopsided('data.directions=["bb-en", "aa-en", "cc-en"]', f"store.folder={tmp_path / 'store'}")
    short = {"updates": 6, "average": 2, "patience": 1}
    config = config.model_copy(update={"train": config.train.model_copy(update=short)})
    prepare(config, Bars())
    train(config, tmp_path / "run")
    assert events(tmp_path / "run", "validation") == []
    assert Run(tmp_path / "run").best().step == 6
    assert "patience" in {event["kind"] for event in events(tmp_path / "run", "warning")}


# ------------------------------------------------------------------------------------- which checkpoints remain


def test_the_last_and_the_best_checkpoints_are_kept(overtrained):
    scores = {event["step"]: event["score"] for event in events(overtrained[1], "validation")}
    kept = checkpoints(overtrained[1] / "checkpoints")
    written = sorted({event["step"] for event in events(overtrained[1], "checkpoint")})
    best = min(scores, key=scores.__getitem__)
    assert best not in written[-2:]
    assert [found.step for found in kept] == [best, *written[-2:]]


def test_more_may_be_kept(lopsided, tmp_path):
    train(lopsided("train.updates=30", "train.save_every=1", "train.keep_last=3", "train.keep_best=4"), tmp_path)
    written = sorted({event["step"] for event in events(tmp_path, "checkpoint")})
    scores = {event["step"]: event["score"] for event in events(tmp_path, "validation")}
    best = sorted(scores, key=scores.__getitem__)[:4]
    assert [found.step for found in checkpoints(tmp_path / "checkpoints")] == sorted({*written[-3:], *best})


def test_the_average_is_the_mean_of_the_last_models(configure, tmp_path):
    config = configure(train={"updates": 20, "save_every": 5, "keep_last": 4, "average": 3})
    train(config, tmp_path)
    last = checkpoints(tmp_path / "checkpoints")[-3:]
    average = open_checkpoint(tmp_path / "checkpoints" / "average")
    models = [found.read_model() for found in last]
    for name, weights in average.read_model().items():
        torch.testing.assert_close(weights, sum(model[name] for model in models) / 3)
    (event,) = events(tmp_path, "average")
    assert event["steps"] == [found.step for found in last]
    assert event["loss"].keys() == event["loss_per_character"].keys() == set(NAMES)
    corpora = [store_of(config).corpus(name, "valid") for name in NAMES]
    sums, tokens = np.array([total_loss(load_model(average), corpus) for corpus in corpora]).T
    assert average.score == event["score"] == pytest.approx(sums.sum() / tokens.sum(), rel=1e-5)


def test_a_run_that_ends_between_validations_validates_its_last_model(configure, tmp_path):
    train(configure(train={"updates": 100, "intervals": 2, "validate_every": 4}), tmp_path)
    last, (done,) = checkpoints(tmp_path / "checkpoints")[-1], events(tmp_path, "done")
    assert done["step"] % 4 == 2
    assert last.step == done["step"] == events(tmp_path, "validation")[-1]["step"]
    assert last.score == events(tmp_path, "validation")[-1]["score"]
    assert Run(tmp_path).best().step == last.step
