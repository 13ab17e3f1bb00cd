"""Real processes that run the command line, and what can be compared of the runs they leave behind.

Importing torch takes seconds, so `Command` forks a process that has imported everything and done nothing yet: its forks
have signals, limits and an exit code of their own. Several of them find each other as the workers of `torchrun` do.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait as wait_for_end
from pathlib import Path
from typing import Any

import torch
from torch.distributed import TCPStore

from evenglot.config import Config, load_config
from evenglot.runs import checkpoint, checkpoint_folder
from tests.logs import json_events
from tests.patience import PATIENCE

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["__main__", "torch._dynamo", "evenglot.cli", "evenglot.training.train"])
BIN = Path(sys.executable).parent
LAST_WORDS = re.compile(r"evenglot(?: \(process \d+\))?: (.*)")
TIMES = {"time", "seconds", "seconds_estimated", "tokens_per_second"}


class Tripwire(io.StringIO):
    """Standard error that asks the process to stop as soon as training prints something (or, if given, this word)."""

    def __init__(self, word=""):
        super().__init__()
        self.word, self.has_asked = word, False

    def write(self, text):
        if self.word in text and callable(signal.getsignal(signal.SIGTERM)) and not self.has_asked:
            self.has_asked = True
            signal.raise_signal(signal.SIGTERM)
        return super().write(text)


class Command:
    """`evenglot ARGUMENTS`, running in one process or in several that train together; nothing of it outlives `with`."""

    def __init__(
        self, *arguments: object, output: Path, processes: int = 1, before: Callable[[], object] | None = None
    ) -> None:
        """`before`: what the process does to itself first."""
        self.arguments = [str(argument) for argument in arguments]
        self.output = output
        self.store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False) if processes > 1 else None
        self.members = [
            FORKS.Process(target=_main, args=(self.arguments, output, self._environment(rank, processes), before))
            for rank in range(processes)
        ]

    def _environment(self, rank: int, processes: int) -> dict[str, str]:
        """As `torchrun` sets it. The port is held already, so no other test can take it meanwhile."""
        if self.store is None:
            return {}
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
        meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": self.store.port, "TORCHELASTIC_USE_AGENT_STORE": True}
        return {name: str(value) for name, value in {**ranks, **meeting}.items()}

    def __enter__(self) -> Command:
        self.output.write_text("")
        for member in self.members:
            member.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL for all: nobody has time to clean up."""
        for member in self.members:
            member.kill()
        for member in self.members:
            member.join()

    def signal(self, number: int, rank: int = 0) -> None:
        os.kill(self.members[rank].pid, number)

    @property
    def runs(self) -> bool:
        return all(member.is_alive() for member in self.members)

    def wait(self) -> int:
        """The exit code; where one process fails, the others end with it, as under `torchrun`."""
        until = time.monotonic() + PATIENCE
        while True:
            codes = [member.exitcode for member in self.members]
            if any(codes):
                for member in self.members:
                    member.join(PATIENCE)
                self.kill()
                return next(filter(None, codes))
            running = [member.sentinel for member, code in zip(self.members, codes, strict=True) if code is None]
            if not running:
                return 0
            assert wait_for_end(running, until - time.monotonic()), f"{self.arguments} hangs: {self.said}"

    def was_killed(self) -> bool:
        """Wait for the end. If one process is killed, the others are killed too; if none is, all must end well."""
        running = self.members
        while running:
            assert wait_for_end([member.sentinel for member in running], PATIENCE), (
                f"{self.arguments} hangs: {self.said}"
            )
            if any(member.exitcode == -signal.SIGKILL for member in self.members):
                self.kill()
                return True
            running = [member for member in running if member.exitcode is None]
        assert not any(member.exitcode for member in self.members), self.said
        return False

    @property
    def said(self) -> str:
        return self.output.read_text()


def _main(arguments: list[str], output: Path, environment: dict[str, str], before: Callable[[], object] | None) -> None:
    """The program, in a fork."""
    os.setsid()
    with output.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.environ.update(environment)
    if before is not None:
        before()
    sys.argv = ["evenglot", *arguments]
    from evenglot.cli import main

    main()


def finish(*arguments: object, output: Path, **options: Any) -> str:
    """Run a command to its end, which must be a good one. What it said."""
    with Command(*arguments, output=output, **options) as command:
        assert command.wait() == 0, command.said
        return command.said


def failure(*arguments: object, output: Path, **options: Any) -> str:
    """Run a command that must refuse its work: exit code 2, no traceback, one line. Which one?"""
    with Command(*arguments, output=output, **options) as command:
        code, said = command.wait(), command.said
    assert code == 2, said
    assert "Traceback" not in said
    (line,) = {spoken[1] for spoken in map(LAST_WORDS.fullmatch, said.splitlines()) if spoken}
    return line


def executable(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """A program of the environment, started as a person does it."""
    program, *rest = map(str, arguments)
    return subprocess.Popen(
        [str(BIN / program), *rest], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def wait_until(condition: Callable[[], bool], runs: Callable[[], bool]) -> bool:
    """Wait, looking often; False if whatever should bring it about has ended without it."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if not runs():
            return condition()
        assert time.monotonic() < until, "nothing happens"
        time.sleep(0.0005)
    return True


# ------------------------------------------------------------------------------------------------ runs compared


def overrides(balance: Mapping[str, Any] | None = None, **sections: Mapping[str, Any]) -> list[str]:
    """Settings as text, for `configured` and for `--set`; `balance` is replaced."""
    keys = [f"{name}.{key}={_flow(value)}" for name, keys in sections.items() for key, value in keys.items()]
    return [*([f"balance={_flow(balance)}"] if balance is not None else []), *keys]


def _flow(value: Any) -> str:
    """YAML in a line; unlike JSON it has keys that are numbers."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def configured(conf: Path, settings: Sequence[str]) -> Config:
    return load_config(conf, settings, check_files=False)


def arguments(conf: Path, run: Path, settings: Sequence[str], *others: str) -> list[str]:
    """Those of `evenglot`."""
    return ["train", str(conf), "--out", str(run), *others, *(word for text in settings for word in ("--set", text))]


def newest(run: Path) -> Path:
    return checkpoint_folder.checkpoints(run / "checkpoints")[-1].folder


def tensors(run: Path) -> dict[str, bytes]:
    """All bits of the newest checkpoint's weights and optimizer."""
    return {name: (newest(run) / name).read_bytes() for name in (checkpoint.MODEL, checkpoint.OPTIMIZER)}


def furthest_weights(left: Path, right: Path) -> float:
    """The largest distance of two weights."""
    models = [checkpoint.open_checkpoint(newest(run)).read_model() for run in (left, right)]
    assert models[0].keys() == models[1].keys()
    return max(float(torch.max(torch.abs(models[0][name] - models[1][name]))) for name in models[0])


def story(run: Path, without: Collection[str] = ("resume",)) -> list[dict[str, Any]]:
    """The log without times, and without some events."""
    events = [event for event in json_events(run / "log.jsonl") if event["event"] not in without]
    return [without_times(event) for event in events]


def without_times(value: Any) -> Any:
    """What two runs that do the same have in common."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return value


def events(run: Path, name: str) -> list[dict[str, Any]]:
    """Those of one kind; none where there is no log yet."""
    file = run / "log.jsonl"
    return [event for event in json_events(file) if event["event"] == name] if file.exists() else []


def descendants(pid: int) -> list[int]:
    """The processes below a process, by their ids."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):  # it has ended
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for child in found:
        found += children.get(child, ())
    return found


def kill_tree(process: subprocess.Popen[str]) -> None:
    """SIGKILL for a program and everything it has started, in whatever session."""
    kill_all([process.pid, *descendants(process.pid)])
    process.communicate()


def kill_all(pids: Collection[int]) -> None:
    """SIGKILL for those that still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
