"""A process that stops is named, and the run can be resumed. Real processes; nothing depends on how fast they are."""

import signal

import pytest

from evenglot.training.stalls import StalledError, is_collective
from tests.logs import json_events
from tests.patience import PATIENCE
from tests.training.commands import Command, finish, wait_until

TIMEOUT = 0.5  # minutes; less might be reached on a busy machine while nothing is wrong


@pytest.mark.slow
def test_a_stopped_process_is_named_and_the_run_resumes(conf, tmp_path):
    run = tmp_path / "run"
    arguments = ("train", conf, "--out", run, "--resume", "--set", f"train.timeout={TIMEOUT}")
    lasting = ("--set", "train.updates=100000", "--set", "train.save_every=2")
    with Command(*arguments, *lasting, output=tmp_path / "said", processes=3) as command:
        assert wait_until(lambda: any((run / "checkpoints").glob("step-*")), lambda: command.runs)
        command.signal(signal.SIGSTOP, rank=1)
        for rank in (0, 2):
            command.members[rank].join(PATIENCE)
            assert command.members[rank].exitcode == 2, command.said
        assert command.members[1].exitcode is None
    assert "process 1 did not answer" in command.said
    assert "Traceback" not in command.said
    step = max(int(folder.name.removeprefix("step-")) for folder in (run / "checkpoints").glob("step-*[0-9]"))
    updates = ("--set", f"train.updates={step + 2}")
    finish(*arguments, *updates, output=tmp_path / "resumed", processes=2)
    assert json_events(run / "log.jsonl")[-1]["step"] == step + 2


@pytest.mark.parametrize(
    ("ranks", "expected"), [([1], "process 1 did"), ([0, 2], "processes 0 and 2 did"), ([], "all of them answer")]
)
def test_the_message_names_the_processes(ranks, expected):
    assert expected in str(StalledError(ranks, 10))


def test_other_errors_are_not_taken_for_stalls():
    assert is_collective(RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer"))
    assert not is_collective(RuntimeError("expected a matrix"))
