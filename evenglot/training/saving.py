"""When a run writes a checkpoint, which older ones it deletes, and which one it resumes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor

from evenglot.config import TrainSettings
from evenglot.runs import checkpoint, checkpoint_folder
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

    A *regular* checkpoint is one that an uninterrupted run writes too. A checkpoint written only because the run was
    asked to stop is temporary, and the next one replaces it. So stops change neither which checkpoints are kept nor
    which are averaged.
    """

    every: int | None  # updates between checkpoints, in addition to those after each validation and interval
    keep_last: int
    regular: list[int] = field(default_factory=list)  # steps of the latest regular checkpoints
    newest: tuple[int, int] = (-1, -1)  # step of the newest checkpoint, and of the last validation then
    replaced: list[int] = field(default_factory=list)  # steps of the checkpoints that the next one replaces

    def due(self, moment: Moment, step: int, validated: int) -> bool:
        """Whether a checkpoint is due after `step` updates, if the last validation was after `validated` updates."""
        if moment is Moment.INTERVAL:
            return True
        if moment is Moment.STOP:
            return not self._is_saved(step, validated)
        if moment is Moment.UPDATE and not self._is_scheduled(step, validated):
            return False
        return step not in self.regular or not self._is_saved(step, validated)

    def add(self, moment: Moment, step: int, validated: int) -> list[int]:
        """Register a new checkpoint. Returns the steps of the checkpoints it replaces."""
        replaced = [each for each in self.replaced if each != step]
        if moment is not Moment.STOP:
            self.regular = [*(each for each in self.regular if each != step), step][-self.keep_last :]
        self.newest = (step, validated)
        self.replaced = self._temporary(step)
        return replaced

    def resume(self, step: int, validated: int, regular: list[int], damaged: list[int]) -> None:
        """Continue from the checkpoint of `step`; the `damaged` ones are newer and will be written again."""
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
    """What a checkpoint stores besides the position of the run."""

    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    state: Mapping[str, Any]


class Checkpointer:
    """Reads and writes the checkpoints of a run according to its policy. Only the first process writes.

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
        """Write a checkpoint if one is due, and delete those that are no longer kept."""
        if not self.policy.due(moment, at.step, at.validated):
            return
        replaced = self.policy.add(moment, at.step, at.validated)
        taken = snapshot()  # on all processes: each may have a part of the weights
        if self.processes.is_first:
            saved = checkpoint.save(
                self.run.checkpoints,
                at.step,
                model=taken.model,
                optimizer=taken.optimizer,
                state={
                    "position": {**at.state(), "regular": self.policy.regular, "replaced": replaced},
                    **taken.state,
                },
                score=at.score if at.validated == at.step else None,
            )
            self.announce(saved)
            self._prune(replaced)
        self.processes.wait()

    def latest(self) -> tuple[Checkpoint, Content] | None:
        """The newest intact checkpoint, the same on all processes; None if there is none yet."""
        newest = checkpoint_folder.latest(self.run.checkpoints, self.warn)
        self._refuse_disagreement(-1 if newest is None else newest[0].step)
        return newest

    def resume(self, content: Content) -> Position:
        """The position of a checkpoint; the policy continues from it too.

        Deletes what the process that wrote it did not come to delete, if it was killed right after.
        """
        position = content.state["position"]
        at = Position.of(position)
        damaged = [each.step for each in checkpoint_folder.checkpoints(self.run.checkpoints) if each.step > at.step]
        self.policy.resume(at.step, at.validated, position.get("regular", []), damaged)
        self.processes.wait()  # the others look at the checkpoints, too
        if self.processes.is_first and not damaged:  # else the damaged ones would count as the newest
            self._prune([step for step in position.get("replaced", []) if step != at.step])
        return at

    def _prune(self, replaced: list[int]) -> None:
        checkpoint_folder.prune(self.run.checkpoints, self.settings.keep_last, self.settings.keep_best, replaced)

    def best(self) -> Checkpoint:
        """The best intact checkpoint of a run that has written one; a damaged one must not end its training."""
        found = checkpoint_folder.best(self.run.checkpoints)
        assert found is not None
        return found

    def last_regular(self, count: int) -> list[Checkpoint]:
        """Up to `count` of the last regular checkpoints, oldest first."""
        found = checkpoint_folder.checkpoints(self.run.checkpoints)
        return [each for each in found if each.step in self.policy.regular][-count:]

    def save_average(
        self, step: int, model: Mapping[str, Tensor], state: Mapping[str, Any], score: float | None
    ) -> None:
        """Write a model averaged after `step` updates next to the checkpoints of the run."""
        if self.processes.is_first:
            checkpoint.save(
                self.run.checkpoints, step, model=model, optimizer=None, state=state, score=score, name="average"
            )

    def _refuse_disagreement(self, step: int) -> None:
        total = self.processes.sum(torch.tensor(step))
        if int(total) != step * self.processes.world:
            raise RunError(
                f"{self.run.folder}: the processes find different checkpoints in this folder; use a shared disk"
            )
