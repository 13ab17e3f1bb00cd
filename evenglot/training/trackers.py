"""TensorBoard and Weights & Biases as optional readers of the event log."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenglot.extras import missing
from evenglot.runs.events import BalanceEvent, ConfigEvent, Event, IntervalEvent, ProbeEvent, StepEvent, ValidationEvent
from evenglot.runs.log import Reader
from evenglot.wording import did_you_mean

# Scalars of an event: tag prefix -> fields of the event.
NUMBERS: dict[type[Event], dict[str, Sequence[str]]] = {
    StepEvent: {"train": ("loss", "learning_rate", "tokens_per_second", "gradient_norm", "tokens")},
    IntervalEvent: {"data": ("padding",)},
    ValidationEvent: {"valid": ("pooled", "macro", "worst", "score", "seconds")},
    ProbeEvent: {"probe": ("seconds",)},
}
# Scalars per direction: field of the event -> tag prefix.
BY_DIRECTION: dict[type[Event], dict[str, str]] = {
    StepEvent: {"losses": "train_loss", "target": "target"},
    IntervalEvent: {"mixture": "mixture"},
    BalanceEvent: {"mixture": "mixture", "losses": "balance_loss", "realised": "realised"},
    ValidationEvent: {"loss": "valid_loss", "loss_per_character": "valid_loss_per_character", "chrf": "valid_chrf"},
    ProbeEvent: {"cosines": "probe_cosine", "target": "target"},
}


def scalars(event: Event) -> dict[str, float]:
    """The scalars of an event by tag, such as `train/loss` or `mixture/aze-en`."""
    return {tag: value for tag, value in _tagged(event) if isinstance(value, int | float)}


def _tagged(event: Event) -> Iterator[tuple[str, Any]]:
    for group, names in NUMBERS.get(type(event), {}).items():
        yield from ((f"{group}/{name}", getattr(event, name)) for name in names)
    for name, group in BY_DIRECTION.get(type(event), {}).items():
        yield from ((f"{group}/{direction}", value) for direction, value in (getattr(event, name) or {}).items())


class TensorBoard:
    """Writes event files for TensorBoard into a folder.

    A resumed run passes the step it resumes from: later points are purged, as they will be computed again. Points at
    that step that were logged before the checkpoint are written again.
    """

    def __init__(self, folder: Path, purge_step: int | None = None, kept: Sequence[Event] = ()) -> None:
        package = _package("torch.utils.tensorboard", "TensorBoard", "tensorboard")
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
        package = _package("wandb", "Weights & Biases", "wandb")
        identity = _stored_id(folder / "wandb" / "id.txt", resume)
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


def _stored_id(file: Path, resume: bool) -> str:
    """The W&B id of the run in this folder; a new run gets a new id."""
    stored = file.read_text(encoding="utf-8").strip() if resume and file.exists() else ""
    identity = stored or uuid4().hex[:8]
    file.parent.mkdir(parents=True, exist_ok=True)  # without this folder, W&B writes to /tmp
    file.write_text(identity + "\n", encoding="utf-8")
    return identity


def _package(module: str, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(extra, name) from error


def _tensorboard(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return TensorBoard(folder / "tensorboard", step, kept)


def _weights_and_biases(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return WeightsAndBiases(folder, step > 0, kept)


TRACKERS: dict[str, Callable[[Path, int, Sequence[Event]], Reader]] = {
    "tensorboard": _tensorboard,
    "wandb": _weights_and_biases,
}


def trackers(names: Sequence[str], folder: Path, step: int = 0, kept: Sequence[Event] = ()) -> list[Reader]:
    """Trackers of these names for the run in a folder, which continues from `step` (0: a new run).

    `kept`: the events of the log after it was rewound to the checkpoint, from `read_log(folder / "log.jsonl")`.
    """
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"unknown tracker {name!r}: {did_you_mean(name, TRACKERS)}")
    return [TRACKERS[name](folder, step, kept) for name in names]
