"""TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from evenglot.runs.events import Event
from evenglot.training.trackers.package import import_package
from evenglot.training.trackers.scalars import scalars


class TensorBoard:
    """Writes event files for TensorBoard into a folder.

    A resumed run passes the step it resumes from: later points are purged, as they will be computed again. Points at
    that step that were logged before the checkpoint are written again.
    """

    def __init__(self, folder: Path, purge_step: int | None = None, kept: Sequence[Event] = ()) -> None:
        package = import_package("torch.utils.tensorboard", "TensorBoard", "tensorboard")
        self._writer: Any = package.SummaryWriter(str(folder), purge_step=purge_step)
        self._last_step: dict[str, int] = {}
        for event in kept:
            if purge_step is not None and event.step >= purge_step:
                self.read(event)

    def read(self, event: Event) -> None:
        """Write the scalars of an event; a tag that repeats at a step (`balance`, then `interval`) is written once."""
        time = datetime.fromisoformat(event.time).timestamp()
        for tag, value in scalars(event).items():
            if self._last_step.get(tag) != event.step:
                self._last_step[tag] = event.step
                self._writer.add_scalar(tag, value, event.step, walltime=time)
        self._writer.flush()  # events before a checkpoint are not written again on resume, so they must not be lost

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()
