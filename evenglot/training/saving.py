"""Saving: when a run writes a checkpoint, which of the older ones it drops, and which one it resumes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor

from evenglot.config import TrainSettings
from evenglot.runs import checkpoint
from evenglot.runs.checkpoint import Checkpoint, Content
from evenglot.runs.run import Run, RunError
from evenglot.training.parallel import Processes
from evenglot.training.position import Position


class Moment(Enum):
    """When in a run a checkpoint may be written."""

    UPDATE = auto()  # between two updates of an interval
    INTERVAL = auto()  # at the end of an interval
    END = auto()  # training is complete
    STOP = auto()  # the run was asked to stop


@dataclass
class SavePolicy:
    """Decides when a checkpoint is due and which older ones it replaces. Reads and writes no files.

    A *regular* checkpoint is one that a run without interruptions writes too. One written only because the run was
    asked to stop is temporary: the next one replaces it. So stops change neither what is kept nor what is averaged.
    """

    every: int | None  # updates between checkpoints, beside those after each validation and interval
    keep_last: int
    regular: list[int] = field(default_factory=list)  # steps of the latest regular checkpoints
    newest: tuple[int, int] = (-1, -1)  # of the newest checkpoint: its step, and that of the last validation before it
    replaced: list[int] = field(default_factory=list)  # steps of the checkpoints that the next one replaces

    def due(self, moment: Moment, step: int, validated: int) -> bool:
        """Is a checkpoint due after `step` updates, the last validation having been after `validated` updates?"""
        if moment is Moment.INTERVAL:
            return True
        if moment is Moment.STOP:
            return not self._is_saved(step, validated)
        if moment is Moment.UPDATE and not self._is_scheduled(step, validated):
            return False
        return step not in self.regular or not self._is_saved(step, validated)

    def add(self, moment: Moment, step: int, validated: int) -> list[int]:
        """A checkpoint is written now. Returns the steps of those that it replaces."""
        replaced = [each for each in self.replaced if each != step]
        if moment is not Moment.STOP:
            self.regular = [*(each for each in self.regular if each != step), step][-self.keep_last :]
        self.newest = (step, validated)
        self.replaced = self._temporary(step)
        return replaced

    def resume(self, step: int, validated: int, regular: list[int], damaged: list[int]) -> None:
        """The run resumes from the checkpoint of `step`; the `damaged` ones are newer, and it will write them again."""
        self.regular = regular
        self.newest = (step, validated)
        self.replaced = [*damaged, *self._temporary(step)]

    def _is_scheduled(self, step: int, validated: int) -> bool:
        return validated == step or (self.every is not None and step % self.every == 0)

    def _is_saved(self, step: int, validated: int) -> bool:
        return self.newest == (step, validated)

    def _temporary(self, step: int) -> list[int]:
        return [] if step in self.regular else [step]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a checkpoint consists of, beside the position of the run."""

    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    state: Mapping[str, Any]


class Checkpointer:
    """Reads and writes the checkpoints of a run as its policy says. The first process writes for all.

    `announce` is called with each checkpoint written, `warn` with a message about each damaged one.
    """

    def __init__(
        self,
        run: Run,
        settings: TrainSettings,
        processes: Processes,
        announce: Callable[[Checkpoint], object],
        warn: Callable[[str], object],
    ) -> None:
        self.run, self.settings, self.processes = run, settings, processes
        self.announce, self.warn = announce, warn
        self.policy = SavePolicy(settings.save_every, settings.keep_last)

    def save(self, moment: Moment, at: Position, snapshot: Callable[[], Snapshot]) -> None:
        """Write a checkpoint if one is due, and drop those that need not be kept any longer."""
        if not self.policy.due(moment, at.step, at.validated):
            return
        replaced = self.policy.add(moment, at.step, at.validated)
        if self.processes.is_first:
            taken = snapshot()
            saved = checkpoint.save(
                self.run.checkpoints,
                at.step,
                model=taken.model,
                optimizer=taken.optimizer,
                state={"position": {**at.state(), "regular": self.policy.regular}, **taken.state},
                score=at.score if at.validated == at.step else None,
            )
            self.announce(saved)
            checkpoint.prune(self.run.checkpoints, self.settings.keep_last, self.settings.keep_best, replaced)
        self.processes.wait()

    def latest(self) -> tuple[Checkpoint, Content] | None:
        """The newest intact checkpoint, the same on all processes; None if there is none yet."""
        newest = checkpoint.latest(self.run.checkpoints, self.warn)
        self._refuse_disagreement(-1 if newest is None else newest[0].step)
        return newest

    def resume(self, content: Content) -> Position:
        """The position of a checkpoint, from which the policy goes on as well."""
        position = content.state["position"]
        at = Position.of(position)
        damaged = [each.step for each in checkpoint.checkpoints(self.run.checkpoints) if each.step > at.step]
        self.policy.resume(at.step, at.validated, position.get("regular", []), damaged)
        return at

    def last_regular(self, count: int) -> list[Checkpoint]:
        """The last so many regular checkpoints, or as many as there are; oldest first."""
        found = checkpoint.checkpoints(self.run.checkpoints)
        return [each for each in found if each.step in self.policy.regular][-count:]

    def save_average(
        self, step: int, model: Mapping[str, Tensor], state: Mapping[str, Any], score: float | None
    ) -> None:
        """Write a model averaged after `step` updates beside the checkpoints of the run."""
        if self.processes.is_first:
            checkpoint.save(
                self.run.checkpoints, step, model=model, optimizer=None, state=state, score=score, name="average"
            )

    def _refuse_disagreement(self, step: int) -> None:
        total = self.processes.sum(torch.tensor(step))
        if int(total) != step * self.processes.world:
            raise RunError(
                f"{self.run.folder}: the processes see different checkpoints in it; use a disk that all share"
            )
