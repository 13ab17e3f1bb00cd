"""Trackio: local by default, or a Space of the Hugging Face Hub if TRACKIO_SPACE_ID is set."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from evenglot.runs.events import ConfigEvent, Event
from evenglot.training.trackers.identity import stored_id
from evenglot.training.trackers.package import import_package
from evenglot.training.trackers.scalars import scalars


class Trackio:
    """Sends scalars to Trackio, which stores them where `trackio show --project evenglot` finds them.

    A run is called after its folder and an id stored there, because folders such as `seed-1` share their names. As with
    W&B, points cannot be removed: a resumed run sends what comes after the last step that Trackio has.
    """

    def __init__(self, folder: Path, resume: bool = False, kept: Sequence[Event] = ()) -> None:
        self._package = package = import_package("trackio", "Trackio", "trackio")
        name = f"{folder.resolve().name}-{stored_id(folder / 'trackio' / 'id.txt', resume)}"
        with redirect_stdout(io.StringIO()):  # it prints how to open its page
            self._run: Any = package.init(
                project=os.environ.get("TRACKIO_PROJECT", "evenglot"),
                name=name,
                resume="allow",
                embed=False,  # no page of its own inside a notebook
                auto_log_cpu=False,
            )
        self._first_step: int = getattr(self._run, "_next_step", 0)
        self._last_step: dict[str, int] = {}
        for event in kept:
            self.read(event)

    def read(self, event: Event) -> None:
        """Send the scalars of an event; of a `config` event, the configuration."""
        if isinstance(event, ConfigEvent):
            self._run.config.update(event.config)
        numbers = {tag: value for tag, value in scalars(event).items() if self._last_step.get(tag) != event.step}
        if numbers and event.step >= self._first_step:
            self._last_step.update(dict.fromkeys(numbers, event.step))
            self._run.log(numbers, step=event.step)

    def close(self) -> None:
        """Send the remaining points and end the run."""
        with redirect_stdout(io.StringIO()):
            self._package.finish()  # the run that was begun last; otherwise it would be ended again at exit
