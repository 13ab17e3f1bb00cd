"""Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenglot.runs.events import ConfigEvent, Event
from evenglot.training.trackers.identity import stored_id
from evenglot.training.trackers.package import import_package
from evenglot.training.trackers.scalars import scalars


class WeightsAndBiases:
    """Sends scalars to Weights & Biases, or stores them in the run folder if WANDB_MODE=offline.

    The W&B id is stored in the run folder, so that a resumed run continues the same W&B run. If a process is killed,
    W&B may lose points that it has not written yet. So a resumed run queries the last step that W&B has and sends the
    rest of the log. Offline there is no last step, and the whole log is sent again: of several parts with the same id,
    the one synced last replaces the others, and the newest is complete.
    """

    def __init__(
        self,
        folder: Path,
        resume: bool = False,
        kept: Sequence[Event] = (),
        project: str | None = None,
        name: str | None = None,
    ) -> None:
        package = import_package("wandb", "Weights & Biases", "wandb")
        identity = stored_id(folder / "wandb" / "id.txt", resume)
        try:
            self._run: Any = package.init(
                project=project or os.environ.get("WANDB_PROJECT", "evenglot"),
                name=name or folder.resolve().name,
                id=identity,
                dir=str(folder),
                resume="allow",
                # Do not capture the terminal, and print no summary at the end.
                settings=package.Settings(console="off", quiet=True),
            )
        except package.Error as error:
            advice = "log in with `wandb login`, or set WANDB_MODE=offline to send the run later"
            raise ValueError(f"Weights & Biases failed to start: {error}; {advice}") from error
        self._first_step: int = self._run.step  # W&B has all earlier points, and points cannot be removed
        for event in kept:
            self.read(event)

    def read(self, event: Event) -> None:
        """Send the scalars of an event; of a `config` event, the configuration."""
        if isinstance(event, ConfigEvent):
            self._run.config.update(dict(event.config), allow_val_change=True)
        numbers = scalars(event)
        if numbers and event.step >= self._first_step:
            self._run.log(numbers, step=event.step)

    def close(self) -> None:
        """Send the remaining points and end the W&B run."""
        self._run.finish()
