"""Strategies that sample from a mixture which changes at every update get short intervals, and nothing else changes."""

import json
import random

import numpy as np
import pytest

from evenglot.config import Config, load_config
from evenglot.config.intervals import SHORT_INTERVAL
from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
from evenglot.training.position import Position
from evenglot.training.train import train
from tests.tasks import CONFIG, SIZES, write_corpora
from tests.training.commands import arguments, finish, overrides, story, tensors
from tests.training.helpers import events, vector
from tests.training.test_resume import MOMENTS, STOPPED, STRATEGIES, Tripwire, kill_when, train_in_pieces

GROUP_DRO = {"strategy": "group-dro", "step": 0.1, "apply": "resample", "estimator": "ema"}
MULTIDDS = {"strategy": "multidds", "every": 20, "learning_rate": 0.01, "probe_sentences": 2}
SMALL_UPDATES = {"tokens_per_batch": 250, "tokens_per_update": 250}
LARGE = {"aa": 2400, "bb": 600, "cc": 200}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A config with data for more than 50 updates: large(balance, batches={...}, ...)."""
    folder = tmp_path_factory.mktemp("large")
    write_corpora(folder, LARGE)
    (folder / "conf.yaml").write_text(CONFIG)
    prepare(load_config(folder / "conf.yaml"), Bars())

    def made(balance, **sections):
        keys = {"batches": {**SMALL_UPDATES, **sections.pop("batches", {})}, **sections}
        overrides = [f"{name}.{key}={json.dumps(value)}" for name, some in keys.items() for key, value in some.items()]
        return load_config(folder / "conf.yaml", [f"balance={json.dumps(balance)}", *overrides], check_files=False)

    return made


# --------------------------------------------------------------------------------------------------- the default


@pytest.mark.parametrize("balance", [GROUP_DRO, MULTIDDS], ids=lambda balance: balance["strategy"])
def test_q_acts_within_fifty_updates(large, tmp_path, balance):
    """The shares that are sampled are those of q when the interval begins, whatever update that is."""
    train(large(balance, train={"updates": 170, "log_every": 1}), tmp_path)
    begun, ended = events(tmp_path, "interval"), events(tmp_path, "balance")
    assert [event["step"] for event in begun] == [0, 50, 100, 150]
    assert {(event["updates"], event["lag"]) for event in begun} == {(50, 49)}
    q = {event["step"]: vector(event["target"]) for event in events(tmp_path, "step")}
    for event in begun[1:]:
        assert vector(event["mixture"]) == pytest.approx(q[event["step"]], abs=1e-12)
    for drawn, event in zip(begun, ended, strict=False):
        pairs = vector(drawn["pairs"])
        assert vector(event["realised"]) == pytest.approx(pairs / pairs.sum())
        assert vector(event["realised"]) == pytest.approx(vector(drawn["mixture"]), abs=3 / pairs.sum())
    first, last = (vector(event["realised"]) for event in (ended[0], ended[-1]))
    assert np.abs(first - last).max() > 0.02  # it has moved, and so has what is sampled


def test_with_intervals_of_one_pass_it_does_not(large, tmp_path):
    train(large(GROUP_DRO, batches={"interval_pairs": sum(LARGE.values())}, train={"updates": 110}), tmp_path)
    (begun,) = events(tmp_path, "interval")
    assert begun["lag"] == begun["updates"] - 1 > 110


@pytest.mark.parametrize(
    ("balance", "others", "expected"),
    [
        (GROUP_DRO, {}, SHORT_INTERVAL),
        (MULTIDDS, {}, SHORT_INTERVAL),
        ({"strategy": "chi-pd", "apply": "resample"}, {}, SHORT_INTERVAL),
        ({"strategy": "cvar-pd", "apply": "resample"}, {}, SHORT_INTERVAL),
        ({"strategy": "group-dro"}, {}, None),  # it weights losses
        ({"strategy": "chi-ibr"}, {}, None),
        ({"strategy": "uniform"}, {}, None),
        ({"strategy": "fastdro"}, {}, None),
        ({"strategy": "chi-ibr"}, {"batches": {"interval_updates": 7}}, 7),
        (GROUP_DRO, {"batches": {"interval_updates": 7}}, 7),
        (GROUP_DRO, {"batches": {"interval_pairs": 300}}, None),
        (GROUP_DRO, {"batches": {"interval_tokens": 300}}, None),
        (GROUP_DRO, {"batches": {"oversample": "released"}}, None),
        (GROUP_DRO, {"train": {"intervals": 30}}, None),  # of one pass, as for other strategies of a grid
        (GROUP_DRO, {"train": {"intervals": 30}, "batches": {"interval_updates": 7}}, 7),
    ],
)
def test_only_these_strategies_have_short_intervals_and_only_if_nothing_else_is_configured(
    configure, balance, others, expected
):
    config = configure(balance, **others)
    assert config.interval_updates == expected
    assert config.batches.interval_updates == others.get("batches", {}).get("interval_updates")  # as configured


def test_no_interval_is_longer_than_a_pass_unless_configured(configure, tmp_path):
    """Where fifty updates are more than one pass, nothing changes."""
    settings = {"updates": 20, "log_every": 1}
    train(configure(GROUP_DRO, train=settings), tmp_path / "default")
    train(configure(GROUP_DRO, train=settings, batches={"interval_pairs": sum(SIZES.values())}), tmp_path / "pass")
    train(configure(GROUP_DRO, train=settings, batches={"interval_updates": 15}), tmp_path / "longer")
    assert story(tmp_path / "default", ("config",)) == story(tmp_path / "pass", ("config",))
    assert tensors(tmp_path / "default") == tensors(tmp_path / "pass")
    assert {event["updates"] for event in events(tmp_path / "longer", "interval")} == {15}


# --------------------------------------------------------------------------------------- validation and checkpoints


def pass_ends(run):
    """The steps at which an interval ends in which a pass over the data is completed, from the log."""
    drawn, found = 0, []
    for begun, ended in zip(events(run, "interval"), events(run, "balance"), strict=False):
        before, drawn = drawn, drawn + sum(begun["pairs"].values())
        if drawn // sum(SIZES.values()) > before // sum(SIZES.values()):
            found.append(ended["step"])
    return found


def steps(run, event):
    return [each["step"] for each in events(run, event)]


@pytest.mark.parametrize("balance", [GROUP_DRO, {**MULTIDDS, "every": 4}], ids=lambda balance: balance["strategy"])
def test_a_run_of_short_intervals_validates_and_saves_once_per_pass(configure, tmp_path, balance):
    train(configure(balance, batches={"interval_updates": 2}, train={"updates": 32}), tmp_path)
    assert steps(tmp_path, "balance") == list(range(2, 33, 2))
    ends = pass_ends(tmp_path)
    assert 2 <= len(ends) <= 4
    for event in ("validation", "checkpoint"):
        assert steps(tmp_path, event) == sorted({*ends, 32})  # and at the end of the run


def test_what_is_configured_is_done_at_the_ends_of_short_intervals_too(configure, tmp_path):
    keys = {"updates": 12, "validate_every": 6, "save_every": 4}
    train(configure(GROUP_DRO, batches={"interval_updates": 2}, train=keys), tmp_path)
    assert steps(tmp_path, "validation") == [6, 12]
    assert steps(tmp_path, "checkpoint") == sorted({4, 6, 8, 12, *pass_ends(tmp_path)})


def test_other_strategies_validate_and_save_after_every_interval(configure, tmp_path):
    train(configure({"strategy": "uniform"}, batches={"interval_updates": 2}, train={"updates": 6}), tmp_path)
    assert steps(tmp_path, "validation") == steps(tmp_path, "checkpoint") == [2, 4, 6]


# ----------------------------------------------------------------------------------------------------- resumed


@pytest.mark.parametrize("name", ["group-dro by sampling", "multidds"])
def test_a_run_that_is_stopped_after_every_update_ends_the_same(configure, tmp_path, monkeypatch, name):
    """Twelve updates: more than a pass, and stops in the middle and at the ends of intervals."""
    config = configure(
        STRATEGIES[name], batches={"interval_updates": 3}, train={"updates": 12, "log_every": 1, "validate_every": 5}
    )
    train(config, tmp_path / "whole")
    assert train_in_pieces(config, tmp_path / "run", monkeypatch) >= 11
    assert len(pass_ends(tmp_path / "run")) == 1
    assert tensors(tmp_path / "run") == tensors(tmp_path / "whole")
    assert story(tmp_path / "run", STOPPED) == story(tmp_path / "whole", STOPPED)


@pytest.mark.parametrize("stop", [pytest.param(50, marks=pytest.mark.slow), 61])  # at the end of an interval; within
def test_a_run_of_the_default_length_resumes_exactly(large, tmp_path, monkeypatch, stop):
    config = large(GROUP_DRO, train={"updates": 70, "log_every": 1})
    train(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", Tripwire(f"update {stop}/70"))
        assert train(config, tmp_path / "run") == "stopped"
    assert steps(tmp_path / "run", "step")[-1] == stop
    train(config, tmp_path / "run", resume=True)
    assert tensors(tmp_path / "run") == tensors(tmp_path / "whole")
    assert story(tmp_path / "run", STOPPED) == story(tmp_path / "whole", STOPPED)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("name", ["group-dro by sampling", "multidds"])
def test_a_run_that_is_killed_again_and_again_ends_the_same(conf, tmp_path, name, processes):
    """In intervals of three updates, saved at every second one and at the end of a pass."""
    settings = overrides(
        STRATEGIES[name],
        model={"ffn": 1024},
        batches={"interval_updates": 3},
        train={"updates": 40, "log_every": 1, "save_every": 2},
    )
    whole, run, output = (tmp_path / folder for folder in ("whole", "run", "output"))
    finish(*arguments(conf, whole, settings), output=output, processes=processes)
    chance, kills = random.Random(f"{name} {processes}"), 0
    while kill_when(chance.choice(MOMENTS), conf, run, settings, output, processes) and kills < 6:
        kills += 1
    assert kills
    finish(*arguments(conf, run, settings, "--resume"), output=output, processes=processes)
    assert tensors(run) == tensors(whole)
    assert story(run) == story(whole)


def test_a_run_begun_before_there_were_short_intervals_goes_on_as_it_began(large, tmp_path, monkeypatch):
    def config(updates):
        return large(GROUP_DRO, train={"updates": updates, "log_every": 1})

    with monkeypatch.context() as patch:
        patch.setattr(Config, "interval_updates", None)  # as in the version that began the run
        train(config(70), tmp_path / "whole")
        train(config(55), tmp_path / "run")
    train(config(70), tmp_path / "run", resume=True)
    assert steps(tmp_path / "run", "interval") == steps(tmp_path / "whole", "interval")
    assert tensors(tmp_path / "run") == tensors(tmp_path / "whole")


def test_a_position_of_an_earlier_version_has_no_length_of_intervals():
    state = Position.start(["aa-en"], 50).state()
    assert Position.of(state).interval_updates == 50
    del state["interval_updates"]
    assert Position.of(state).interval_updates is None
