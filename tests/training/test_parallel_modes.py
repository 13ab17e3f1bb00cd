"""`train.parallel` changes how processes share an update, and nothing that is learnt."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from evenglot.training.train import train
from tests.training.commands import arguments, configured, events, finish, tensors
from tests.training.test_parallel import CHI_IBR, assert_alike, settings

MODES = ("flat", "ddp", "fsdp")
MORE = {"validate_every": 5, "chrf_sentences": 5, "average": 2, "clip": 1.0}  # all that gathers or loads weights


def run_in(mode, count, conf, run, updates=14, *options, balance=CHI_IBR, before=None):
    chosen = settings(balance, updates, parallel=mode, **MORE)
    finish(*arguments(conf, run, chosen, *options), output=run.with_name("output"), processes=count, before=before)
    return run


@pytest.fixture(scope="module")
def alone(conf, tmp_path_factory):
    """The run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    train(configured(conf, settings(CHI_IBR, 14, **MORE)), folder)
    return folder


def assert_same_run(left, right):
    """Down to the losses, translations and averages of every validation."""
    assert_alike(left, right)
    for name, key in {"validation": "macro", "average": "score"}.items():
        mine, theirs = ([event[key] for event in events(run, name)] for run in (left, right))
        assert mine == pytest.approx(theirs, rel=1e-6)
        assert mine
    chrf = [[event["chrf"] for event in events(run, "validation")] for run in (left, right)]
    assert chrf[0] == chrf[1]


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("ddp", 2),
        ("fsdp", 2),
        *(pytest.param(mode, count, marks=pytest.mark.slow) for mode in MODES for count in (3, 4)),
    ],
)
def test_every_mode_learns_what_one_process_learns(conf, tmp_path, alone, mode, count):
    run = run_in(mode, count, conf, tmp_path / "run")
    about = events(run, "config")[0]
    assert (about["parallel"], about["processes"]) == (mode, count)
    assert_same_run(alone, run)
    losses = [[event["loss"] for event in events(each, "step")] for each in (alone, run)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "balance",
    [
        pytest.param({"strategy": "fastdro"}, id="weights of examples"),
        pytest.param({"strategy": "multidds", "every": 3, "learning_rate": 0.1}, id="gradients of groups"),
        pytest.param({"strategy": "group-dro", "step": 0.5}, id="weights of groups"),
    ],
)
@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_strategies_are_served_in_every_mode(conf, tmp_path, mode, balance):
    train(configured(conf, settings(balance, 10, **MORE)), tmp_path / "one")
    assert_same_run(tmp_path / "one", run_in(mode, 2, conf, tmp_path / "two", 10, balance=balance))


# ----------------------------------------------------------------------------------------------------- resume


def small_buckets(rehearsals: int = 2) -> None:
    """In a process before it trains: several buckets even for a tiny model, as large ones have."""
    from evenglot.training.parallel_modes import Ddp

    Ddp.__init__.__defaults__ = (0.01,)
    Ddp.rehearsals = rehearsals


def resumed_like_uninterrupted(conf, folder, mode, count, before=None) -> bool:
    whole, cut = folder / "whole", folder / "cut"
    run_in(mode, count, conf, whole, 10, before=before)
    run_in(mode, count, conf, cut, 5, before=before)
    run_in(mode, count, conf, cut, 10, "--resume", before=before)
    assert [event["parallel"] for event in events(cut, "resume")] == [mode]
    return tensors(whole) == tensors(cut)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("mode", MODES)
def test_a_resumed_run_is_the_same_to_the_last_bit(conf, tmp_path, mode, count):
    assert resumed_like_uninterrupted(conf, tmp_path, mode, count, small_buckets)


@pytest.mark.slow
def test_without_the_rehearsal_it_would_not_be(conf, tmp_path):
    """DDP lays its buckets out anew after the first update; with two processes the order of a sum does not matter."""
    assert not resumed_like_uninterrupted(conf, tmp_path, "ddp", 4, partial(small_buckets, rehearsals=1))


@pytest.mark.slow
def test_a_run_goes_on_in_another_mode(conf, tmp_path, alone):
    run = run_in("fsdp", 3, conf, tmp_path / "run", 4)
    for mode, count, updates in (("ddp", 2, 7), ("flat", 1, 9), ("fsdp", 4, 11), ("flat", 2, 14)):
        run_in(mode, count, conf, run, updates, "--resume")
    assert [event["processes"] for event in events(run, "resume")] == [2, 1, 4, 2]
    assert_alike(alone, run)


# ------------------------------------------------------------------------------------------------------- units


def test_all_layers_are_units():
    from tests.model.cases import small_model

    model = small_model()
    inside = {id(p) for together in model.units() for module in together for p in module.parameters()}
    rest = {name for name, parameter in model.named_parameters() if id(parameter) not in inside}
    assert {name.partition(".")[0] for name in rest} == {"source_embedding", "target_embedding", "encoder", "decoder"}
    assert not any("layers." in name for name in rest)


def test_the_bias_of_keys_has_no_gradient():
    """It has no effect, so its gradient would be rounding noise."""
    from evenglot.model.layers import JointProjection

    torch.manual_seed(1)
    layer = JointProjection(4, 12)
    layer(torch.randn(2, 3, 4)).square().sum().backward()
    assert layer.bias.grad[4:8].tolist() == [0.0] * 4
    assert (layer.bias.grad[:4] != 0).all()
    assert (layer.bias.grad[8:] != 0).all()
