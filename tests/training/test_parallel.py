"""How many processes train together changes neither what is learnt nor what is counted."""

from __future__ import annotations

import signal
import sys

import pytest
import torch
from torch.distributed import TCPStore
from torch.multiprocessing import get_context

from evenglot.config import TrainSettings
from evenglot.training.parallel import has_bfloat16, processes
from evenglot.training.train import train
from tests.patience import PATIENCE
from tests.training.commands import (
    Command,
    arguments,
    configured,
    events,
    finish,
    furthest_weights,
    overrides,
    story,
    wait_until,
)

FOUR = {"tokens_per_batch": 256, "tokens_per_update": 1024, "interval_tokens": 3000}
CHI_IBR = {"strategy": "chi-ibr", "noise": "ignore"}  # or its mixture would hardly move in runs as short as these
LEARNING_RATE = 1e-3
MIXTURES = {"interval": "mixture", "balance": "target", "step": "target", "probe": "target"}


def settings(balance, updates, batches=FOUR, **keys):
    train_keys = {"updates": updates, "log_every": 1, "learning_rate": LEARNING_RATE, **keys}
    return overrides(balance, model={"dropout": 0.2}, batches=batches, train=train_keys)


def run_on(count, conf, run, chosen, *options):
    finish(*arguments(conf, run, chosen, *options), output=run.with_name("output"), processes=count)
    return run


def mixtures(run):
    """All mixtures of a run, in their order."""
    return [share for event in story(run) for share in event.get(MIXTURES.get(event["event"], ""), {}).values()]


def assert_alike(left, right):
    """The same run, but for rounding.

    Rounding may decide on which side of its kink an input of a ReLU lies. Then a gradient jumps, and Adam makes a part
    of a step of it (1e-4 in one of three seeds), but losses hardly change (4e-7).
    """
    assert len(mixtures(left)) > 6
    assert mixtures(left) == pytest.approx(mixtures(right), rel=0, abs=1e-6)
    assert losses(left) == pytest.approx(losses(right), rel=2e-6)
    assert furthest_weights(left, right) < LEARNING_RATE


def losses(run):
    """The training losses of all updates."""
    return [event["loss"] for event in events(run, "step")]


# ------------------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize(
    ("balance", "updates"),
    [
        pytest.param(CHI_IBR, 50, id="chi-ibr"),
        pytest.param({"strategy": "group-dro", "step": 0.5}, 12, id="group-dro"),
        pytest.param({"strategy": "fastdro"}, 12, id="fastdro"),
        pytest.param({"strategy": "multidds", "every": 3, "learning_rate": 0.1}, 12, id="multidds"),
    ],
)
def test_two_processes_learn_what_one_learns(conf, tmp_path, balance, updates):
    chosen = settings(balance, updates)
    train(configured(conf, chosen), tmp_path / "one")
    run_on(2, conf, tmp_path / "two", chosen)
    assert events(tmp_path / "two", "config")[0]["processes"] == 2
    assert_alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    "balance",
    [
        pytest.param({"strategy": "group-dro", "step": 0.5, "apply": "resample"}, id="group-dro"),
        pytest.param({"strategy": "multidds", "every": 3, "learning_rate": 0.1}, id="multidds", marks=pytest.mark.slow),
    ],
)
def test_they_learn_it_in_short_intervals_too(conf, tmp_path, balance):
    chosen = settings(balance, 14, {"tokens_per_batch": 256, "tokens_per_update": 1024, "interval_updates": 4})
    train(configured(conf, chosen), tmp_path / "one")
    run_on(2, conf, tmp_path / "two", chosen)
    for run in ("one", "two"):
        assert [event["updates"] for event in events(tmp_path / run, "interval")] == [4, 4, 4, 4]
    assert_alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_three_processes_learn_what_one_learns(conf, tmp_path):
    chosen = settings(CHI_IBR, 50)
    train(configured(conf, chosen), tmp_path / "one")
    assert_alike(tmp_path / "one", run_on(3, conf, tmp_path / "three", chosen))


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_processes(conf, tmp_path, first, then):
    run, whole = tmp_path / "run", tmp_path / "whole"
    with Command(
        *arguments(conf, run, settings(CHI_IBR, 5000)), output=tmp_path / "output", processes=first
    ) as command:
        assert wait_until(lambda: len(events(run, "step")) > 5, lambda: command.runs)
        command.signal(signal.SIGTERM)
        assert command.wait() == 0
    chosen = settings(CHI_IBR, events(run, "step")[-1]["step"] + 10)
    train(configured(conf, chosen), whole)
    run_on(then, conf, run, chosen, "--resume")
    assert [event["processes"] for event in events(run, "resume")] == [then]
    assert_alike(run, whole)


@pytest.mark.parametrize(
    "balance",
    [
        pytest.param({"strategy": "proportional"}, id="proportional"),
        pytest.param({"strategy": "fastdro"}, id="fastdro"),
    ],
)
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_a_process_without_work_counts_nothing(conf, tmp_path, balance, micro_batches):
    batches = {"tokens_per_batch": 256, "tokens_per_update": 256 * micro_batches, "interval_tokens": 1500}
    chosen = settings(balance, 9, batches)
    runs = [run_on(count, conf, tmp_path / str(count), chosen) for count in (1, 2)]
    one, two = (flat(story(run, ("config", "warning"))) for run in runs)
    assert one.keys() == two.keys()
    for key, value in one.items():
        assert two[key] == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value), key
    assert furthest_weights(*runs) < 1e-4


def flat(value, key=""):
    """All that is in nested content, by where it is."""
    if not isinstance(value, dict | list):
        return {key: value}
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return {name: leaf for k, v in inner for name, leaf in flat(v, f"{key}/{k}").items()}


# ---------------------------------------------------------------------------------------- the operations alone


def of_two_processes(work):
    """What a function of Processes returns in each of two that have joined."""
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    context = get_context("forkserver")
    answers = context.SimpleQueue()
    members = [context.Process(target=_join, args=(rank, store.port, work, answers)) for rank in range(2)]
    for member in members:
        member.start()
    try:
        for member in members:
            member.join(PATIENCE)
            assert member.exitcode == 0
        return dict(answers.get() for _ in members)
    finally:
        for member in members:
            member.kill()


def _join(rank, port, work, answers):
    import os

    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": True}
    os.environ.update({name: str(value) for name, value in {**ranks, **meeting}.items()})
    with processes(TrainSettings(device="cpu", threads=1)) as mine:
        answers.put((rank, work(mine)))


def _gather(mine):
    cases = {
        "unequal": torch.arange(3.0 + 2 * mine.rank) + 10 * mine.rank,
        "empty": torch.arange(4 * mine.rank),
        "nobody": torch.zeros(0),
        "double": torch.tensor([1 / 3 + mine.rank], dtype=torch.float64),
    }
    return {name: [part.tolist() for part in mine.gather(values)] for name, values in cases.items()}


def test_gather_gives_everybody_the_values_of_everybody():
    answers = of_two_processes(_gather)
    assert answers[0] == answers[1]
    assert answers[0] == {
        "unequal": [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0, 13.0, 14.0]],
        "empty": [[], [0, 1, 2, 3]],
        "nobody": [[], []],
        "double": [[1 / 3], [4 / 3]],
    }


def _model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2, bias=False))


def _gradients(model):
    return {name: parameter.grad.tolist() for name, parameter in model.named_parameters() if parameter.grad is not None}


def _sum_gradients(mine):
    model = _model()
    (model[0](torch.full((1, 4), 1.0 + mine.rank)).sum() if mine.rank else model(torch.ones(1, 4)).sum() * 0).backward()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.0) if parameter.grad is None else parameter.grad
    mine.sum_gradients(model)
    return _gradients(model)


def test_gradients_are_summed_in_their_places():
    answers = of_two_processes(_sum_gradients)
    model = _model()
    model[0](torch.full((1, 4), 2.0)).sum().backward()
    expected = _gradients(model) | {"2.weight": [[0.0] * 3] * 2}
    assert answers[0] == answers[1] == expected


def test_one_process_is_left_alone():
    with processes(TrainSettings(device="cpu", threads=1)) as mine:
        values = torch.tensor([1.0, 2.0])
        assert [part.tolist() for part in mine.gather(values)] == [[1.0, 2.0]]
        assert mine.sum(values) is values
        assert (mine.rank, mine.world, mine.is_first) == (0, 1, True)


# --------------------------------------------------------------------------------------------------- precision


def settings_with(precision):
    return TrainSettings(precision=precision, device="cpu", threads=1)


def test_bfloat16_is_used_where_it_works(bfloat16):
    with processes(settings_with("bfloat16")) as mine:
        assert mine.precision == "bfloat16"
    with processes(settings_with("auto")) as mine:
        assert mine.precision == "float32"


@pytest.mark.parametrize(
    ("features", "python"),
    [
        pytest.param(frozenset(), sys.executable, id="no instructions"),
        pytest.param(frozenset({"avx512_bf16"}), "/bin/false", id="instructions that kill the process"),
    ],
)
def test_without_working_instructions_training_continues_in_float32(
    conf, tmp_path, monkeypatch, capfd, features, python
):
    monkeypatch.setattr("evenglot.training.parallel.features", lambda: features)
    monkeypatch.setattr(sys, "executable", python)
    has_bfloat16.cache_clear()
    try:
        train(configured(conf, overrides(train={"updates": 2, "precision": "bfloat16"})), tmp_path / "run")
    finally:
        has_bfloat16.cache_clear()
    assert "train.precision" in capfd.readouterr().err
    assert events(tmp_path / "run", "config")[0]["precision"] == "float32"
