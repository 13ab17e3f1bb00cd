"""SIGKILLs at random moments of training: resumed, the run must end as one that nothing happened to, bit for bit.

Every strategy that keeps state, in 1, 2 and 3 processes, with more batches in an update than processes; and runs that
go on with another number of processes, compared to runs that changed it after the same updates, unharmed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from evenglot.training.step import Step
from tests.tasks import CONFIG, write_corpora
from tests.training.commands import Command, arguments, finish, newest, overrides, tensors
from torture.crash_points import SIZES, content, differences
from torture.operations import kill_before

UPDATES = 8
STRATEGIES: dict[str, dict[str, Any]] = {
    "fade": {"strategy": "fade", "start": "mix:0.5", "passes": 3},
    "schedule": {"strategy": "schedule", "points": {0: "uniform", 2: "data"}, "interpolate": True},
    "chi-ibr": {"strategy": "chi-ibr", "noise": "ignore"},  # so that its mixture moves in a few updates
    "chi-ibr on validation losses": {"strategy": "chi-ibr", "signal": "valid"},
    "chi-ibr with a reference run": {"strategy": "chi-ibr", "baseline": "auto"},
    "cvar-ibr": {"strategy": "cvar-ibr"},
    "group-dro": {"strategy": "group-dro", "step": 0.5},
    "group-dro by sampling": {"strategy": "group-dro", "step": 0.5, "apply": "resample"},
    "chi-pd": {"strategy": "chi-pd", "step": 0.1},
    "cvar-pd": {"strategy": "cvar-pd"},
    "fastdro": {"strategy": "fastdro"},
    "multidds": {"strategy": "multidds", "every": 3, "learning_rate": 0.1},
}
CHANGING = ("chi-ibr", "group-dro by sampling", "fastdro", "multidds")  # not told by validations at the end of a part
ORDERS = ((1, 2, 3), (3, 1, 2), (2, 3, 1))  # numbers of processes, from one start to the next

MOMENTS = {"before an update": 2, "after an update": 2, "gradient": 8, "operation": 30}  # one of so many


@dataclass(frozen=True)
class Moment:
    """When a process dies: at an update or a gradient of its own, or, the first, before an operation on files."""

    kind: str
    number: int
    rank: int

    @classmethod
    def at_random(cls, chance: random.Random, processes: int) -> Moment:
        """Soon after a start, so that it comes before the end."""
        kind, most = chance.choice(
            [("before an update", 2), ("after an update", 2), ("gradient", 8), ("operation", 30)]
        )
        return cls(kind, chance.randrange(most), 0 if kind == "operation" else chance.randrange(processes))

    def arm(self, run: Path) -> None:
        """In each process, at its beginning."""
        if int(os.environ.get("RANK", "0")) != self.rank:
            return
        match self.kind:
            case "operation":
                kill_before(self.number, run.with_name("count"), run)
            case "gradient":
                torch.autograd.backward = _deadly(torch.autograd.backward, self.number)
            case _:
                Step.train = _deadly(Step.train, self.number, after=self.kind.startswith("after"))


def _deadly(function: Callable[..., Any], number: int, after: bool = False) -> Callable[..., Any]:
    """A function, in whose call with this number the process is killed."""
    calls = iter(range(number + 1))

    def call(*given: Any, **named: Any) -> Any:
        is_last = next(calls) == number
        if is_last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*given, **named)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


class Scene:
    """Runs with one store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf, self.output = folder, folder / "conf.yaml", folder / "output"
        write_corpora(folder, SIZES)
        self.conf.write_text(f"{CONFIG}store: {{folder: store, valid_cap: 4}}\n")
        finish("prepare", self.conf, output=self.output)

    def words(self, run: Path, name: str, updates: int = UPDATES) -> list[str]:
        """Of the command; with four batches an update."""
        settings = overrides(
            STRATEGIES[name],
            batches={"interval_tokens": 2800, "tokens_per_batch": 256, "tokens_per_update": 1024},
            train={"updates": updates, "save_every": 1, "log_every": 1},
        )
        return arguments(self.conf, run, settings, "--resume")

    def train(self, run: Path, name: str, processes: int, updates: int = UPDATES) -> None:
        """Train or resume, to the end."""
        finish(*self.words(run, name, updates), output=self.output, processes=processes)

    def kill(self, run: Path, name: str, processes: int, moment: Moment) -> bool:
        """Train or resume, and kill all processes when one dies. Did it die before the end?"""
        run.with_name("count").unlink(missing_ok=True)
        arm = partial(moment.arm, run)
        with Command(*self.words(run, name), output=self.output, processes=processes, before=arm) as command:
            return command.was_killed()


def again_and_again(scene: Scene, name: str, processes: int, kills: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kill a run so often: how often at what, and what was at fault."""
    chance, run, whole = random.Random(f"{seed} {name} {processes}"), scene.folder / "run", scene.folder / "whole"
    scene.train(whole, name, processes)
    expected, outcomes, faults = content(whole), Counter[str](), []
    while outcomes.total() < kills:
        shutil.rmtree(run, ignore_errors=True)
        while outcomes.total() < kills:
            moment = Moment.at_random(chance, processes)
            if not scene.kill(run, name, processes, moment):
                break
            outcomes[moment.kind] += 1
        scene.train(run, name, processes)
        if wrong := differences(content(run), expected):
            faults.append(f"{name}, {processes} processes: {wrong}")
    shutil.rmtree(run)
    shutil.rmtree(whole)
    return outcomes, faults


def with_others(scene: Scene, name: str, order: tuple[int, ...], seed: int) -> tuple[Counter[str], list[str]]:
    """Kill a run and go on with another number of processes, for each but the last."""
    chance, run, whole = random.Random(f"{seed} {name} {order}"), scene.folder / "run", scene.folder / "whole"
    outcomes, parts = Counter[str](), []
    for processes in order[:-1]:
        moment = Moment.at_random(chance, processes)
        outcomes[moment.kind] += scene.kill(run, name, processes, moment)
        parts.append((processes, _saved(run)))
    scene.train(run, name, order[-1])
    at = 0
    for processes, updates in (*parts, (order[-1], UPDATES)):
        if updates > at:
            scene.train(whole, name, processes, updates)
            at = updates
    faults = [] if tensors(run) == tensors(whole) else [f"{name}, processes {order}: other weights"]
    shutil.rmtree(run)
    shutil.rmtree(whole)
    return outcomes, faults


def _saved(run: Path) -> int:
    """The updates of its newest checkpoint."""
    has_one = any((run / "checkpoints").glob("step-????????"))
    return int(newest(run).name.removeprefix("step-")) if has_one else 0
