"""MultiDDS: cosines of gradients, against autograd on the same text."""

import json

import numpy as np
import pytest
import torch

from evenglot.balance import GradientProbe
from evenglot.config import load_config
from evenglot.directions import GroupMap
from evenglot.runs.checkpoint_folder import checkpoints
from evenglot.runs.model import load_model
from evenglot.training.probe import mean_cosines
from evenglot.training.step import Step
from evenglot.training.train import train
from evenglot.training.validation import NO_PAIRS
from tests.training.helpers import events, gradient_of, mean_loss, random_corpora, step_of, store_of, vector, weights_of

NAMES = ["aa-en", "bb-en", "cc-en"]
EVERYTHING = {"probe_sentences": 1000, "probe_tokens": 100_000}  # the sample is the whole corpus
EVERY, RATE, ADAM_STEPS = 4, 0.02, 30
MULTIDDS = {"strategy": "multidds", "every": EVERY, "learning_rate": RATE, "adam_steps": ADAM_STEPS, **EVERYTHING}


def cosine(left, right):
    return float(left @ right / left.norm() / right.norm())


def mean_of_cosines(model, train_text, valid_text):
    """For each training corpus, over validation corpora; both are lists of lists of corpora."""
    train_gradients, valid_gradients = (
        [gradient_of(model, mean_loss(model, corpora)) for corpora in text] for text in (train_text, valid_text)
    )
    return [np.mean([cosine(mine, theirs) for theirs in valid_gradients]) for mine in train_gradients]


@pytest.fixture(scope="module")
def probed(conf, tmp_path_factory):
    """A run without dropout that keeps a checkpoint of every update, its config and its folder."""
    overrides = [f"balance={json.dumps(MULTIDDS)}", "batches.interval_pairs=300", "model.dropout=0"]
    overrides += [f"train.{setting}" for setting in ("updates=12", "log_every=1", "save_every=1", "keep_last=20")]
    config, folder = load_config(conf, overrides, check_files=False), tmp_path_factory.mktemp("probed")
    train(config, folder)
    return config, folder


def test_gradients_are_compared_after_the_first_update_and_every_so_many(probed):
    assert [event["step"] for event in events(probed[1], "probe")] == [1, 4, 8, 12]


def test_rewards_are_the_mean_cosines_with_the_gradients_of_validation_text(probed):
    config, folder = probed
    store = store_of(config)
    models = {found.step: load_model(found) for found in checkpoints(folder / "checkpoints")}
    text = [[[store.corpus(name, split)] for name in NAMES] for split in ("train", "valid")]
    for event in events(folder, "probe")[:3]:
        expected = mean_of_cosines(models[event["step"]], *text)
        assert vector(event["cosines"]) == pytest.approx(expected, abs=1e-4)


def test_each_probe_takes_adam_steps_on_the_rewarded_log_likelihood(probed):
    sizes = torch.tensor([600.0, 150.0, 50.0], dtype=torch.float64)
    logits = (sizes / sizes.sum()).log().requires_grad_()
    adam = torch.optim.Adam([logits], lr=RATE)
    for event in events(probed[1], "probe"):
        rewards = torch.from_numpy(vector(event["cosines"]))
        before = torch.softmax(logits, 0).detach()
        for _ in range(ADAM_STEPS):
            adam.zero_grad()
            (-(rewards * torch.log_softmax(logits, 0)).sum()).backward()
            adam.step()
        q = vector(event["target"])
        assert q == pytest.approx(torch.softmax(logits, 0).detach().numpy(), abs=1e-9)
        if (rewards > 0).all():  # then P ~ R is where it goes
            aim = (rewards / rewards.sum()).numpy()
            assert np.abs(q - aim).sum() < np.abs(before.numpy() - aim).sum()


def test_the_next_interval_shows_the_mixture_of_the_last_probe(probed):
    probes = {event["step"]: event["target"] for event in events(probed[1], "probe")}
    first, *later = events(probed[1], "interval")
    assert vector(first["mixture"]) == pytest.approx([0.75, 0.1875, 0.0625])
    assert len(later) >= 2
    for event in later:
        latest = max(step for step in probes if step <= event["step"])
        assert event["mixture"] == probes[latest]
    for event in events(probed[1], "step"):
        assert event["target"] == probes[max(step for step in probes if step <= event["step"])]


def test_looking_at_gradients_does_not_change_what_is_learnt(configure, tmp_path):
    idle = {"strategy": "multidds", "every": 2, "learning_rate": 0}
    for name, balance in {"idle": idle, "plain": {"strategy": "proportional"}}.items():
        train(configure(balance, train={"updates": 6, "log_every": 1}), tmp_path / name)
    idle_losses, plain_losses = ([e["loss"] for e in events(tmp_path / name, "step")] for name in ("idle", "plain"))
    assert idle_losses == plain_losses


# --------------------------------------------------------------------------------------- a probe in isolation

SIZES = {"aa-en": 9, "bb-en": 5, "cc-en": 6}
OWN_GROUPS = GroupMap({name: name for name in SIZES})
TWO_GROUPS = GroupMap({"aa-en": "large", "bb-en": "small", "cc-en": "small"})


class Witness(Step):
    """Remembers the batches it was asked for the gradients of."""

    def gradient(self, step, batch, *key):
        self.__dict__.setdefault("batches", []).append(batch)
        return super().gradient(step, batch, *key)


def test_a_group_is_probed_on_all_its_directions_and_one_without_validation_text_is_no_judge():
    step = step_of(SIZES)
    text, held_out = random_corpora(SIZES), random_corpora(SIZES, seed=2)
    held_out["aa-en"] = NO_PAIRS
    expected = mean_of_cosines(
        step.model, [[text["aa-en"]], [text["bb-en"], text["cc-en"]]], [[held_out["bb-en"], held_out["cc-en"]]]
    )
    found = mean_cosines(step, 1, GradientProbe(1, 1000, 100_000), text, held_out, TWO_GROUPS)
    assert list(found) == ["large", "small"]
    assert list(found.values()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("sentences", "tokens"), [(3, 1000), (100, 20), (100, 1)])
def test_a_sample_is_as_small_as_asked_for_and_never_empty(sentences, tokens):
    step = step_of(SIZES, kind=Witness)
    mean_cosines(step, 1, GradientProbe(1, sentences, tokens), random_corpora(SIZES), random_corpora(SIZES), OWN_GROUPS)
    assert len(step.batches) == 6
    for batch in step.batches:
        assert 1 <= len(batch.target) <= sentences
        assert len(batch.target) == 1 or batch.target_lengths.sum() <= tokens


def test_samples_change_from_probe_to_probe_and_are_the_same_when_it_is_done_again():
    def batches(number):
        step = step_of(SIZES, kind=Witness)
        before = weights_of(step.model)
        probe = GradientProbe(1, 3, 1000)
        mean_cosines(step, number, probe, random_corpora(SIZES), random_corpora(SIZES, seed=2), OWN_GROUPS)
        assert torch.equal(weights_of(step.model), before)
        return [batch.target.tolist() for batch in step.batches]

    assert batches(5) == batches(5)
    assert batches(5) != batches(6)
