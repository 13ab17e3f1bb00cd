"""What cannot go on ends with exit code 2 and one line that says what to do; nothing that was there is lost."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import sys
from pathlib import Path

import pytest
import torch

from evenglot.config import load_config
from evenglot.corpus.prepare import prepare
from evenglot.progress import Bars
from evenglot.runs import checkpoint
from evenglot.runs.run import ChangedSettingsError
from evenglot.training.train import train
from tests.tasks import CONFIG, write_corpora
from tests.training.commands import (
    Command,
    arguments,
    configured,
    events,
    failure,
    finish,
    newest,
    overrides,
    tensors,
    wait_until,
)

SHORT = overrides(train={"updates": 3})
NAMES = ("aa-en", "bb-en", "cc-en")


@pytest.fixture
def refused(conf, tmp_path):
    """The line with which `evenglot train` refuses: refused("--resume", *settings, conf=..., run=...)."""

    def line(*options, settings=(), conf=conf, run=tmp_path / "run", **others):
        return failure(*arguments(conf, run, settings, *options), output=tmp_path / "output", **others)

    return line


@pytest.fixture(scope="module")
def done(conf, tmp_path_factory):
    """A run of three updates; copy it before resuming it."""
    run = tmp_path_factory.mktemp("done") / "run"
    train(configured(conf, SHORT), run)
    return run


@pytest.fixture
def begun(done, tmp_path):
    return Path(shutil.copytree(done, tmp_path / "run"))


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---------------------------------------------------------------------------------------------- numbers explode


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "balance", [{"strategy": "proportional"}, {"strategy": "fastdro"}], ids=lambda b: b["strategy"]
)
def test_a_loss_that_is_not_finite_stops_before_it_does_harm(refused, tmp_path, balance, processes):
    settings = overrides(balance, train={"learning_rate": 1e30, "warmup": 0, "save_every": 1, "log_every": 1})
    line = refused(settings=settings, processes=processes)
    last = events(tmp_path / "run", "step")[-1]["step"]
    assert f"update {last + 1}: " in line
    assert all(name in line for name in NAMES)
    assert "train.learning_rate" in line
    kept = checkpoint.open_checkpoint(newest(tmp_path / "run"))
    assert kept.step <= last
    assert all(torch.isfinite(tensor).all() for tensor in kept.read().model.values())


def test_a_run_whose_loss_exploded_goes_on_with_a_lower_rate(refused, conf, begun, tmp_path):
    explosive, tame = (overrides(train={"updates": 6, "warmup": 0, "learning_rate": rate}) for rate in (1e30, 1e-3))
    line = refused("--resume", settings=explosive)
    assert "update 5: " in line
    assert "train.learning_rate" in line
    assert newest(begun).name == "step-00000003"
    finish(*arguments(conf, begun, tame, "--resume"), output=tmp_path / "output")
    assert newest(begun).name == "step-00000006"


# ------------------------------------------------------------------------------------------------ what is there


def test_a_run_is_not_begun_where_there_is_one(refused, begun):
    before = contents(begun)
    line = refused(settings=SHORT)
    assert f"{begun}: " in line
    assert "update 3" in line
    assert "--resume" in line
    assert contents(begun) == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.dim", "64"),
        ("balance", '{"strategy": "chi-ibr", "rho": 0.2}'),
        ("train.label_smoothing", "0.2"),
        ("batches.tokens_per_batch", "256"),
        ("seed", "7"),
        ("vocabulary.size_other", "70"),  # to prepare the text anew would not help
    ],
)
def test_a_run_does_not_go_on_with_other_settings(conf, begun, key, value):
    before = contents(begun)
    with pytest.raises(ChangedSettingsError) as error:
        train(configured(conf, [*SHORT, f"{key}={value}"]), begun, resume=True)
    assert all(changed == key or changed.startswith(f"{key}.") for changed in error.value.keys)
    assert error.value.keys
    assert len(str(error.value).splitlines()) == 1
    assert contents(begun) == before


def test_what_became_what_is_told_the_strategy_first(conf, begun):
    settings = [*SHORT, "seed=7", "balance.strategy=temperature", "balance.tau=2"]
    with pytest.raises(ChangedSettingsError) as error:
        train(configured(conf, settings), begun, resume=True)
    before = load_config(begun / "config.yaml", check_files=False).balance.strategy
    assert f"(balance.strategy: {before} -> temperature, " in str(error.value)
    assert "balance.tau: (unset) -> 2" in str(error.value)
    assert "seed: " in str(error.value)


def test_options_that_follow_from_another_strategy_are_not_told(conf, begun):
    settings = [*SHORT, 'balance={"strategy": "chi-ibr", "rho": 0.2, "p_unit": "tokens"}']
    with pytest.raises(ChangedSettingsError, match="balance.rho: .* -> 0.2") as error:
        train(configured(conf, settings), begun, resume=True)
    assert "balance.p_unit: sentences -> tokens" in str(error.value)
    assert "floor" not in str(error.value)
    assert "more" not in str(error.value)


def test_a_run_goes_on_without_its_config(begun, conf, tmp_path):
    finish("train", "--resume", str(begun), "--set", "train.updates=5", output=tmp_path / "output")
    assert "train.updates: 3 -> 5" in (tmp_path / "output").read_text()
    assert newest(begun).name == "step-00000005"
    train(configured(conf, overrides(train={"updates": 5})), tmp_path / "whole")
    assert tensors(begun) == tensors(tmp_path / "whole")


@pytest.mark.parametrize("options", [(), ("--resume", "--out", "elsewhere")])
def test_a_folder_in_place_of_a_config_is_for_resuming_it_only(begun, tmp_path, options):
    before = contents(begun)
    line = failure("train", str(begun), *options, output=tmp_path / "output")
    assert ("--out" if options else "--resume") in line
    assert contents(begun) == before


def test_another_radius_is_named(refused, conf, tmp_path):
    train(configured(conf, overrides({"strategy": "chi-ibr", "rho": 0.1}, train={"updates": 2})), tmp_path / "run")
    line = refused("--resume", settings=overrides({"strategy": "chi-ibr", "rho": 0.2}, train={"updates": 2}))
    assert "balance.rho" in line


def test_a_run_may_go_on_for_longer(conf, begun, tmp_path):
    longer = overrides(train={"updates": 5})
    train(configured(conf, longer), begun, resume=True)
    train(configured(conf, longer), tmp_path / "whole")
    assert tensors(begun) == tensors(tmp_path / "whole")
    assert configured(begun / "config.yaml", ()).train.updates == 5


def test_a_run_does_not_go_on_where_every_checkpoint_is_damaged(refused, begun):
    for file in (begun / "checkpoints").glob("*/model.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    assert f"{begun / 'checkpoints'}: " in refused("--resume", settings=SHORT)


@pytest.fixture
def killed_while_replacing(begun):
    """A run that was killed while its only checkpoint was replaced, on a system that cannot exchange folders."""
    only = newest(begun)
    shutil.copytree(only, only.with_name(f"{only.name}.unfinished"))
    only.rename(only.with_name(f"{only.name}.replaced.unfinished"))
    return begun


def test_a_run_that_was_killed_while_replacing_its_checkpoint_is_still_there(refused, killed_while_replacing):
    assert "--resume" in refused(settings=SHORT)
    assert newest(killed_while_replacing).name == "step-00000003"


def test_it_goes_on_where_it_was_and_nothing_unfinished_stays(conf, killed_while_replacing):
    train(configured(conf, SHORT), killed_while_replacing, resume=True)  # all updates are done: nothing is saved
    assert events(killed_while_replacing, "resume")[-1]["step"] == 3
    assert [folder.name for folder in (killed_while_replacing / "checkpoints").iterdir()] == ["step-00000003"]


def test_a_run_ends_well_where_an_old_checkpoint_is_damaged(conf, begun):
    shutil.copytree(newest(begun), begun / "checkpoints" / "step-00000001")  # the step in its state is another
    train(configured(conf, overrides(train={"updates": 5})), begun, resume=True)
    assert events(begun, "done")[-1]["step"] == 5


@pytest.mark.parametrize(
    "command",
    [
        ("translate", "--to", "en"),
        ("score",),
        ("export", "--to", "ctranslate2", "--out", "out"),
        ("serve",),
        ("baseline",),
    ],
)
def test_a_damaged_best_model_is_not_silently_another(conf, begun, tmp_path, command):
    best = newest(begun)
    content = checkpoint.open_checkpoint(best).read()
    checkpoint.save(begun / "checkpoints", 1, model=content.model, optimizer=None, state=content.state, score=99.0)
    (best / "state.json").write_text("{")
    line = failure(command[0], begun, *command[1:], output=tmp_path / "output")
    assert f"{best / 'state.json'}: " in line
    assert "--which" in line


@pytest.mark.parametrize("options", [(), ("--resume",)])
def test_a_run_without_its_config_is_not_told_to_resume(refused, conf, begun, options):
    (begun / "config.yaml").unlink()
    line = refused(*options, settings=SHORT)
    assert f"{begun / 'config.yaml'}: " in line
    assert "--resume" not in line
    shutil.copy(conf, begun / "config.yaml")  # as the line says
    train(configured(conf, SHORT), begun, resume=True)
    assert events(begun, "resume")[-1]["step"] == 3


def test_resuming_mends_the_vocabularies(conf, begun):
    before = contents(begun / "vocabulary")
    (begun / "vocabulary" / "source.model").write_bytes(b"")
    train(configured(conf, SHORT), begun, resume=True)
    assert contents(begun / "vocabulary") == before


def _with_small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
def test_an_export_that_does_not_fit_is_named(begun, tmp_path, to):
    words = ("export", begun, "--to", to, "--out", tmp_path / "export")
    line = failure(*words, output=tmp_path / "output", before=_with_small_files)
    assert f"{tmp_path / 'export'}" in line
    assert not (tmp_path / "export").exists()


@pytest.mark.parametrize("options", [(), ("--resume",)])
def test_the_record_of_a_run_whose_checkpoints_were_removed_is_not_lost(refused, begun, options):
    shutil.rmtree(begun / "checkpoints")
    before = contents(begun)
    line = refused(*options, settings=SHORT)
    assert f"{begun}: " in line
    assert "--out" in line
    assert contents(begun) == before


def test_a_damaged_log_after_the_last_checkpoint_does_not_stop_a_resume(conf, begun):
    with (begun / "log.jsonl").open("a") as log:
        log.write("\0\0\0\0\n" + '{"event": "step", "step": 4}\n')  # as after a power cut
    train(configured(conf, overrides(train={"updates": 4})), begun, resume=True)
    assert events(begun, "done")[-1]["step"] == 4


OTHER_LOGS = {
    "deleted": lambda lines: None,
    "emptied": lambda lines: [],
    "cut": lambda lines: lines[:-4],
    "another run's": lambda lines: [line.replace('"time": "2', '"time": "1') for line in lines],
}


@pytest.mark.parametrize("damage", OTHER_LOGS)
def test_a_run_does_not_go_on_with_a_damaged_log(refused, begun, damage):
    log = begun / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    other = OTHER_LOGS[damage](lines)
    assert other != lines
    log.unlink() if other is None else log.write_text("".join(other))
    longer = overrides(train={"updates": 4})
    for _ in range(2):  # and is not talked into it
        assert f"{log}: " in refused("--resume", settings=longer)
    log.write_text("".join(lines))
    train(configured(begun / "config.yaml", longer), begun, resume=True)
    assert events(begun, "done")[-1]["step"] == 4


def test_a_checkpoint_without_the_hash_of_its_log_is_resumed(conf, begun):
    state = newest(begun) / "state.json"
    about = json.loads(state.read_text())
    del about["checksum"], about["state"]["record"]["log_hash"]
    state.write_text(json.dumps({**about, "checksum": checkpoint._digest_of(about)}))
    (begun / "log.jsonl").write_text("")
    train(configured(conf, overrides(train={"updates": 4})), begun, resume=True)
    assert events(begun, "done")[-1]["step"] == 4


def test_two_processes_do_not_train_in_one_folder(refused, conf, tmp_path):
    run = tmp_path / "run"
    endless = overrides(train={"updates": 100_000, "log_every": 1})
    with Command(*arguments(conf, run, endless), output=tmp_path / "first") as first:
        assert wait_until(lambda: bool(events(run, "step")), lambda: first.runs)
        line = refused("--resume", settings=endless)
        assert f"{run}: " in line
        assert "--out" in line
        assert first.runs
    finish(*arguments(conf, run, overrides(train={"updates": 1}), "--resume"), output=tmp_path / "third")


# ------------------------------------------------------------------------------------------------------- stores


@pytest.fixture
def own(tmp_path):
    """A config file with a store that a test may spoil."""
    folder = tmp_path / "task"
    folder.mkdir()
    write_corpora(folder)
    file = folder / "conf.yaml"
    file.write_text(CONFIG)
    prepare(load_config(file), Bars())
    return file


def test_a_store_must_be_prepared(refused, own):
    shutil.rmtree(load_config(own).store.folder)
    assert "evenglot prepare" in refused(conf=own)


def test_a_store_must_be_of_the_same_directions(refused, own):
    own.write_text(CONFIG.replace("[aa, bb, cc]", "[aa, bb]"))
    line = refused(conf=own)
    assert "cc-en" in line
    assert "evenglot prepare" in line


@pytest.mark.parametrize("key", ["store.valid_cap=5", "store.seed=9", "data.invalid_utf8=drop"])
def test_a_store_must_be_of_the_same_settings(refused, own, key):
    line = refused(conf=own, settings=[*SHORT, key])
    assert key.split("=")[0] in line
    assert "evenglot prepare" in line


def test_text_elsewhere_than_in_the_store_is_mentioned(own, tmp_path, capsys):
    for file in own.parent.glob("train.*"):
        shutil.copy(file, tmp_path / file.name)
    train(configured(own, [*SHORT, f"data.train={tmp_path}/train.{{pair}}.{{lang}}"]), tmp_path / "run")
    assert "data.train: " in capsys.readouterr().err
    train(configured(own, SHORT), tmp_path / "other")
    assert "data.train" not in capsys.readouterr().err


def test_the_settings_of_a_store_are_those_it_was_made_with(refused, own):
    """A kill between two files must not leave old content under new settings."""
    config = Path(load_config(own).store.folder) / "config.yaml"
    config.write_text(config.read_text().replace("max_words: null", "max_words: 4"))
    assert f"{config}: " in refused(conf=own, settings=SHORT)


def test_a_store_must_not_change_under_a_run(refused, own, tmp_path):
    train(configured(own, SHORT), tmp_path / "run")
    before = contents(tmp_path / "run" / "checkpoints")
    corpus = own.parent / "train.cc-en.en"
    corpus.write_text(corpus.read_text().replace("ba", "be"))
    prepare(load_config(own), Bars())
    line = refused("--resume", settings=SHORT, conf=own)
    assert f"{load_config(own).store.folder}: " in line
    assert "--out" in line
    assert contents(tmp_path / "run" / "checkpoints") == before


@pytest.mark.parametrize("spoil", [lambda content: content[:-1], lambda content: content[:-2] + b"\x01\x01"])
def test_a_store_must_be_intact(refused, own, spoil):
    store = Path(load_config(own).store.folder)
    file = max((path for path in store.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    file.write_bytes(spoil(file.read_bytes()))
    assert str(store) in refused(conf=own)


# ------------------------------------------------------------------------------------------------------ machine


def test_a_run_cannot_be_a_file(refused, tmp_path):
    (tmp_path / "run").write_text("not a folder")
    assert str(tmp_path / "run") in refused()


def _without_privileges():
    """Permissions are meant for root too, from here on."""
    version, no_capabilities = (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(version, no_capabilities) == 0


def test_a_folder_must_be_writable(refused, tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    line = refused(before=_without_privileges)
    assert ": permission denied; " in line
    assert str(tmp_path / "run") in line


def _with_little_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**29
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def test_a_batch_too_large_for_memory_is_named(refused):
    huge = overrides(model={"ffn": 65_536}, batches={"tokens_per_batch": 65_536, "tokens_per_update": 65_536})
    line = refused(settings=huge, before=_with_little_memory)
    assert "update 0: " in line
    assert "65,536 tokens" in line
    assert "--set batches.tokens_per_batch=32768" in line


def _into_a_broken_pipe():
    """As in `evenglot train ... 2>&1 | head`, when that has read enough."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    for stream in (1, 2):
        os.dup2(write_end, stream)


def test_training_outlives_those_who_listen(conf, tmp_path):
    settings = overrides(train={"updates": 3, "log_every": 1})
    finish(*arguments(conf, tmp_path / "run", settings), output=tmp_path / "output", before=_into_a_broken_pipe)
    assert newest(tmp_path / "run").name == "step-00000003"


def test_a_run_that_could_not_begin_does_not_take_its_folder(refused, conf, tmp_path):
    """Its log is there already when a tracker refuses."""
    line = refused(settings=overrides(train={"updates": 3, "trackers": ["wandb"]}), before=_without_wandb)
    assert "wandb" in line
    train(configured(conf, SHORT), tmp_path / "run")
    assert newest(tmp_path / "run").name == "step-00000003"


def _without_wandb():
    sys.modules["wandb"] = None  # importing it is an error


def test_a_folder_with_other_files_is_left_alone(conf, refused, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    assert "notes.txt" in refused(settings=SHORT)
    assert contents(run) == {run / "notes.txt": b"mine"}
    (run / "notes.txt").rename(run / "output.txt")  # of a grid
    assert train(configured(conf, SHORT), run) == "updates"
