"""A run that is stopped, killed or damaged ends as if nothing had happened: bit by bit, and so does its log."""

from __future__ import annotations

import random
import resource
import signal
import sys
from functools import partial

import pytest

from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
from evenglot.runs import checkpoint, checkpoint_folder
from evenglot.runs.run import ChangedSettingsError
from evenglot.training.train import train
from tests.killed import kill_itself
from tests.patience import PATIENCE
from tests.tasks import CONFIG, write_corpora
from tests.training.commands import (
    Command,
    Tripwire,
    arguments,
    configured,
    descendants,
    events,
    executable,
    failure,
    finish,
    kill_tree,
    newest,
    overrides,
    story,
    tensors,
    wait_until,
)
from torture.kills import STRATEGIES

SHORT_INTERVALS = {"interval_tokens": 1400}  # of 3 updates
TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2", "-m", "evenglot")
STOPPED = ("resume", "checkpoint")  # events that a stop adds to the log


@pytest.fixture(scope="module")
def whole(conf, tmp_path_factory):
    """The run with these settings that nothing happens to."""
    made = {}

    def run(settings, processes=1):
        key = (*settings, processes)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("whole") / "run"
            if processes == 1:
                train(configured(conf, settings), made[key])
            else:
                output = made[key].with_name("output")
                finish(*arguments(conf, made[key], settings), output=output, processes=processes)
        return made[key]

    return run


def killable(balance=None, **keys):
    """Settings with which there is much to be interrupted: a save after each update, with files of some size."""
    return overrides(
        balance or STRATEGIES["chi-ibr"],
        model={"ffn": 1024},
        batches=SHORT_INTERVALS,
        train={"updates": 24, "log_every": 1, "save_every": 1, **keys},
    )


def train_in_pieces(config, run, monkeypatch):
    """Train, stopping after each update. After how many was it stopped?"""
    stops = 0
    with monkeypatch.context() as patch:
        while True:
            patch.setattr(sys, "stderr", Tripwire())
            if train(config, run, resume=stops > 0) != "stopped":
                return stops
            stops += 1


# ----------------------------------------------------------------------------------------------------- stopped


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_that_is_stopped_after_every_update_ends_the_same(conf, whole, tmp_path, monkeypatch, name):
    settings = overrides(STRATEGIES[name], batches=SHORT_INTERVALS, train={"updates": 8, "log_every": 1})
    stops = train_in_pieces(configured(conf, settings), tmp_path / "run", monkeypatch)
    assert stops >= 7
    assert tensors(tmp_path / "run") == tensors(whole(settings))
    assert story(tmp_path / "run", STOPPED) == story(whole(settings), STOPPED)


def test_a_run_in_bfloat16_is_resumed_exactly_and_differs_from_float32(conf, whole, tmp_path, monkeypatch, bfloat16):
    keys = {"updates": 8, "log_every": 1}
    low, exact = (
        overrides(batches=SHORT_INTERVALS, train={**keys, "precision": precision})
        for precision in ("bfloat16", "float32")
    )
    train_in_pieces(configured(conf, low), tmp_path / "run", monkeypatch)
    assert tensors(tmp_path / "run") == tensors(whole(low))
    assert story(tmp_path / "run", STOPPED) == story(whole(low), STOPPED)
    assert tensors(whole(low)) != tensors(whole(exact))


@pytest.mark.parametrize("name", ["chi-ibr", "chi-ibr on validation losses"])
@pytest.mark.parametrize("every", [2, 3])
def test_a_stop_skips_no_validation(conf, whole, tmp_path, monkeypatch, name, every):
    keys = {"updates": 8, "log_every": 3, "validate_every": every, "patience": 6}
    settings = overrides(STRATEGIES[name], batches=SHORT_INTERVALS, train=keys)
    train_in_pieces(configured(conf, settings), tmp_path / "run", monkeypatch)
    assert story(tmp_path / "run", STOPPED) == story(whole(settings), STOPPED)
    assert tensors(tmp_path / "run") == tensors(whole(settings))


def test_a_run_ends_where_its_patience_ends(conf, tmp_path, monkeypatch):
    keys = {"updates": 12, "learning_rate": 1e-20, "weight_decay": 0, "validate_every": 2, "patience": 2}
    settings = overrides(train={**keys, "warmup": 0})  # nothing is learnt, so no validation is better than the first
    assert train(configured(conf, settings), tmp_path / "whole") == "patience"
    train_in_pieces(configured(conf, settings), tmp_path / "pieces", monkeypatch)
    for run in ("whole", "pieces"):
        assert [event["step"] for event in events(tmp_path / run, "validation")] == [2, 4, 6], run
        assert events(tmp_path / run, "done")[-1]["step"] == 6, run


def test_a_stop_does_not_change_the_average(conf, whole, tmp_path, monkeypatch):
    settings = overrides(batches=SHORT_INTERVALS, train={"updates": 5, "average": 2})
    train_in_pieces(configured(conf, settings), tmp_path / "run", monkeypatch)
    averages = [run / "checkpoints" / "average" / checkpoint.MODEL for run in (tmp_path / "run", whole(settings))]
    assert averages[0].read_bytes() == averages[1].read_bytes()


@pytest.mark.parametrize(("updates", "steps"), [(1, [1]), (4, [3, 4])])
def test_nor_does_one_in_the_last_update_where_nothing_is_validated(tmp_path, monkeypatch, updates, steps):
    write_corpora(tmp_path)
    (tmp_path / "conf.yaml").write_text(
        CONFIG.replace("  valid: valid.{pair}.{lang}\n", "") + "store: {folder: store}\n"
    )
    settings = overrides(batches=SHORT_INTERVALS, train={"updates": updates, "average": 2})
    config = configured(tmp_path / "conf.yaml", settings)
    prepare(config, Bars())
    train_in_pieces(config, tmp_path / "run", monkeypatch)
    (average,) = events(tmp_path / "run", "average")
    assert average["steps"] == steps


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_that_is_stopped_once_ends_the_same(conf, whole, tmp_path, monkeypatch, name):
    settings = overrides(STRATEGIES[name], batches=SHORT_INTERVALS, train={"updates": 8, "log_every": 1})
    for update in range(1, 8):
        run = tmp_path / str(update)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", Tripwire(f"update {update}/8"))
            assert train(configured(conf, settings), run) == "stopped"
        train(configured(conf, settings), run, resume=True)
        assert tensors(run) == tensors(whole(settings)), update
        assert story(run, STOPPED) == story(whole(settings), STOPPED), update


def stop_and_go_on(conf, run, output, number, processes=1, rank=0):
    """Stop a long run with a signal, as soon as it has begun; three updates more, and it may end. Settings of the end.

    A long one, so that it cannot be over before we have seen it begin, however busy the machine is.
    """
    with Command(*arguments(conf, run, killable(**LONG)), output=output, processes=processes) as command:
        assert wait_until(lambda: len(events(run, "step")) > 1, lambda: command.runs)
        command.signal(number, rank)
        assert command.wait() == 0
    stopped_at = events(run, "step")[-1]["step"]
    assert newest(run).name == f"step-{stopped_at:08d}"
    assert events(run, "done")[-1]["reason"] == "stopped"
    assert "Stopping" in command.said
    assert f"evenglot train --resume {run}" in command.said
    assert "Traceback" not in command.said
    settings = killable(**{**LONG, "updates": stopped_at + 3})
    finish(*arguments(conf, run, settings, "--resume"), output=output, processes=processes)
    return settings


LONG = {"updates": 5000, "save_every": 10_000}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends_well(conf, whole, tmp_path, number):
    settings = stop_and_go_on(conf, tmp_path / "run", tmp_path / "output", number)
    assert tensors(tmp_path / "run") == tensors(whole(settings))


def test_a_signal_to_one_process_stops_all(conf, whole, tmp_path):
    settings = stop_and_go_on(conf, tmp_path / "run", tmp_path / "output", signal.SIGTERM, processes=2, rank=1)
    assert tensors(tmp_path / "run") == tensors(whole(settings, processes=2))


@pytest.mark.slow
def test_a_signal_to_torchrun_saves_before_the_processes_end(conf, whole, tmp_path):
    settings, run = killable(**LONG), tmp_path / "run"
    torchrun = executable(*TORCHRUN, *arguments(conf, run, settings))
    try:
        assert wait_until(lambda: len(events(run, "step")) > 1, lambda: torchrun.poll() is None)
        torchrun.send_signal(signal.SIGTERM)
        said, _ = torchrun.communicate(timeout=PATIENCE)
    finally:
        kill_tree(torchrun)
    stopped_at = events(run, "step")[-1]["step"]
    assert newest(run).name == f"step-{stopped_at:08d}", said
    assert events(run, "done")[-1]["reason"] == "stopped"
    short = killable(**{**LONG, "updates": stopped_at + 3})
    finish(*arguments(conf, run, short, "--resume"), output=tmp_path / "output", processes=2)
    assert tensors(run) == tensors(whole(short, processes=2))


@pytest.mark.slow
def test_the_program_itself_ends_well_at_ctrl_c(conf, whole, tmp_path):
    settings, run = killable(**LONG), tmp_path / "run"
    program = executable("evenglot", *arguments(conf, run, settings))
    try:
        assert wait_until(lambda: len(events(run, "step")) > 1, lambda: program.poll() is None)
        program.send_signal(signal.SIGINT)
        said, _ = program.communicate(timeout=PATIENCE)
    finally:
        kill_tree(program)
    assert program.returncode == 0
    assert "Stopping" in said
    assert "Traceback" not in said
    short = killable(**{**LONG, "updates": events(run, "step")[-1]["step"] + 3})
    finish(*arguments(conf, run, short, "--resume"), output=tmp_path / "output")
    assert tensors(run) == tensors(whole(short))


# ------------------------------------------------------------------------------------------------------ killed


def has_begun(run, before):
    return bool(events(run, "config"))


def saves(run, before):
    """Some of a checkpoint is written, not all."""
    return any((run / "checkpoints").glob("*.unfinished/*"))


def mixture_moves(run, before):
    """An interval has ended; it may be saved, or not yet."""
    return len(events(run, "balance")) > before["balance"]


def has_saved(run, before):
    return len(events(run, "checkpoint")) > before["checkpoint"]


def has_updated(run, before):
    return len(events(run, "step")) > before["step"] + 2


MOMENTS = [saves, mixture_moves, has_saved, has_updated]


def kill_when(moment, conf, run, settings, output, processes=1):
    """Start or resume, and kill everything at a moment. Did it come before the end?"""
    before = {name: len(events(run, name)) for name in ("step", "balance", "checkpoint")}
    dies = partial(kill_itself, partial(moment, run, before))
    words = arguments(conf, run, settings, "--resume")
    with Command(*words, output=output, processes=processes, before=dies) as command:
        return command.was_killed()


@pytest.mark.parametrize(("name", "processes"), [("chi-ibr", 1), ("group-dro", 2)])
def test_a_killed_run_ends_the_same(conf, whole, tmp_path, name, processes):
    settings, run = killable(STRATEGIES[name]), tmp_path / "run"
    for moment in (has_begun, *random.Random(f"{name} {processes}").sample(MOMENTS, 3)):
        assert kill_when(moment, conf, run, settings, tmp_path / "output", processes), moment
    finish(*arguments(conf, run, settings, "--resume"), output=tmp_path / "output", processes=processes)
    assert tensors(run) == tensors(whole(settings, processes))
    assert story(run) == story(whole(settings, processes))


def test_a_run_killed_while_it_saves_ends_the_same(conf, whole, tmp_path):
    settings, run = killable(), tmp_path / "run"
    assert kill_when(saves, conf, run, settings, tmp_path / "output")
    assert saves(run, {})  # half a checkpoint was left behind
    finish(*arguments(conf, run, settings, "--resume"), output=tmp_path / "output")
    assert not list((run / "checkpoints").glob("*.unfinished"))
    assert tensors(run) == tensors(whole(settings))
    assert story(run) == story(whole(settings))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("name", ["chi-ibr", "chi-ibr with a reference run", "group-dro", "fastdro", "multidds"])
def test_a_run_that_is_killed_again_and_again_ends_the_same(conf, whole, tmp_path, name, processes):
    settings, run = killable(STRATEGIES[name], updates=40, save_every=2), tmp_path / "run"
    chance = random.Random(f"again {name} {processes}")
    kills = 0
    while kill_when(chance.choice(MOMENTS), conf, run, settings, tmp_path / "output", processes) and kills < 6:
        kills += 1
    assert kills
    finish(*arguments(conf, run, settings, "--resume"), output=tmp_path / "output", processes=processes)
    assert tensors(run) == tensors(whole(settings, processes))
    assert story(run) == story(whole(settings, processes))


@pytest.mark.slow
def test_a_run_whose_torchrun_is_killed_ends_the_same(conf, whole, tmp_path):
    settings, run = killable(updates=60), tmp_path / "run"
    for saved in (2, 10):
        torchrun = executable(*TORCHRUN, *arguments(conf, run, settings, "--resume"))
        try:
            seen = len(events(run, "checkpoint")) + saved
            assert wait_until(lambda: len(events(run, "checkpoint")) >= seen, lambda: torchrun.poll() is None)  # noqa: B023
            assert len(descendants(torchrun.pid)) >= 2
        finally:
            kill_tree(torchrun)
    torchrun = executable(*TORCHRUN, *arguments(conf, run, settings, "--resume"))
    said, _ = torchrun.communicate(timeout=PATIENCE)
    assert torchrun.returncode == 0, said
    assert tensors(run) == tensors(whole(settings, processes=2))
    assert story(run) == story(whole(settings, processes=2))


# --------------------------------------------------------------------------------------------------- damaged


@pytest.mark.parametrize("file", [checkpoint.MODEL, checkpoint.OPTIMIZER, checkpoint.STATE])
@pytest.mark.parametrize("after", [0, 1])  # updates after the end of an interval
def test_a_damaged_checkpoint_costs_no_more_than_its_updates(conf, whole, tmp_path, capsys, file, after):
    longer = overrides(STRATEGIES["chi-ibr"], batches=SHORT_INTERVALS, train={"updates": 12})
    updates = events(whole(longer), "balance")[1]["step"] + after
    settings = overrides(STRATEGIES["chi-ibr"], batches=SHORT_INTERVALS, train={"updates": updates})
    config, run = configured(conf, settings), tmp_path / "run"
    train(config, run)
    assert (events(run, "balance")[-1]["step"] == updates) == (after == 0)
    damaged = newest(run) / file
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    capsys.readouterr()
    train(config, run, resume=True)
    assert f"{damaged}: " in capsys.readouterr().err
    assert tensors(run) == tensors(whole(settings))
    assert story(run) == story(whole(settings))


def test_after_some_damaged_checkpoints_the_intact_ones_are_not_those_that_go(conf, whole, tmp_path):
    """The damaged ones are newer, and may have better scores, than those that are saved next."""
    keys = {"updates": 12, "save_every": 2, "keep_last": 2, "keep_best": 1}
    settings, run = overrides(STRATEGIES["chi-ibr"], batches=SHORT_INTERVALS, train=keys), tmp_path / "run"
    train(
        configured(conf, overrides(STRATEGIES["chi-ibr"], batches=SHORT_INTERVALS, train={**keys, "keep_last": 9})), run
    )
    *_, intact, one, two, three = checkpoint_folder.checkpoints(run / "checkpoints")
    for damaged in (one, two, three):
        file = damaged.folder / checkpoint.MODEL
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", Tripwire())  # after one more update, which is saved
        assert train(configured(conf, settings), run, resume=True) == "stopped"
    assert checkpoint_folder.latest(run / "checkpoints", print)[0].step > intact.step
    train(configured(conf, settings), run, resume=True)
    assert tensors(run) == tensors(whole(settings))


@pytest.mark.parametrize("file", [checkpoint.MODEL, pytest.param(checkpoint.OPTIMIZER, marks=pytest.mark.slow)])
def test_a_full_disk_costs_no_more_than_the_checkpoint(conf, whole, tmp_path, file):
    settings, run = killable(save_every=10), tmp_path / "run"
    size = (newest(whole(settings)) / file).stat().st_size
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size - 1, size - 1))
    train(configured(conf, killable(save_every=10, updates=5)), run)
    good = newest(run)
    line = failure(*arguments(conf, run, settings, "--resume"), output=tmp_path / "output", before=full)
    assert f"{run / 'checkpoints'}/step-" in line
    assert "file too large" in line
    assert newest(run) == good
    assert checkpoint.open_checkpoint(good).read().optimizer
    assert not list((run / "checkpoints").glob("*.unfinished"))
    finish(*arguments(conf, run, settings, "--resume"), output=tmp_path / "output")
    assert tensors(run) == tensors(whole(settings))


# ------------------------------------------------------------------------------------- runs of earlier versions


@pytest.mark.parametrize("limit", [None, 30])
def test_a_run_from_before_keys_were_renamed_resumes_exactly(configure, tmp_path, limit):
    """Its config.yaml has batches.epoch_size, and balance.intervals and interval_size beside max_passes."""

    def config(updates):
        balance = {"strategy": "chi-ibr", "max_passes": limit}
        return configure(balance, batches={"interval_pairs": 300}, train={"updates": updates, "intervals": 4})

    train(config(9), tmp_path / "whole")
    train(config(4), tmp_path / "old")
    saved = tmp_path / "old" / "config.yaml"
    written = saved.read_text()
    planned = "\n  intervals: 4\n  interval_size: 300.0\n" if limit else "\n  intervals: null\n  interval_size: null\n"
    old = written.replace("interval_pairs:", "epoch_size:").replace("\nbatches:\n", f"{planned}batches:\n")
    if limit:
        assert old.count("  intervals: 4\n") == 2
        old = old.replace("  updates: 4\n  intervals: 4\n", "  updates: 4\n  intervals: null\n")  # it was not required
    assert old.count("epoch_size: 300\n") == 1
    assert "interval_pairs" not in old
    saved.write_text(old)
    train(config(9), tmp_path / "old", resume=True)
    assert tensors(tmp_path / "old") == tensors(tmp_path / "whole")
    (resumed,) = events(tmp_path / "old", "resume")
    assert resumed["changed"] == ["train.updates"]


def test_a_plan_of_passes_must_not_change_on_resume(configure, tmp_path):
    def config(intervals):
        return configure(
            {"max_passes": 60}, batches={"interval_pairs": 300}, train={"updates": 4, "intervals": intervals}
        )

    train(config(4), tmp_path / "run")
    with pytest.raises(ChangedSettingsError) as error:
        train(config(5), tmp_path / "run", resume=True)
    assert error.value.keys == {"train.intervals"}
