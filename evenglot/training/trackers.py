"""TensorBoard and Weights & Biases as readers of the log: they show the same numbers, and training needs neither."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from evenglot.runs.events import BalanceEvent, ConfigEvent, Event, IntervalEvent, ProbeEvent, StepEvent, ValidationEvent
from evenglot.runs.log import Reader
from evenglot.wording import did_you_mean

# Which numbers of an event go where: group -> fields of the event.
NUMBERS: dict[type[Event], dict[str, Sequence[str]]] = {
    StepEvent: {"train": ("loss", "learning_rate", "tokens_per_second", "gradient_norm", "tokens")},
    IntervalEvent: {"data": ("padding",)},
    ValidationEvent: {"valid": ("pooled", "macro", "worst", "score", "seconds")},
    ProbeEvent: {"probe": ("seconds",)},
}
# Numbers by direction: field of the event -> group.
BY_DIRECTION: dict[type[Event], dict[str, str]] = {
    StepEvent: {"losses": "train_loss", "target": "target"},
    IntervalEvent: {"mixture": "mixture"},
    BalanceEvent: {"mixture": "mixture", "losses": "balance_loss", "realised": "realised"},
    ValidationEvent: {"loss": "valid_loss", "loss_per_character": "valid_loss_per_character", "chrf": "valid_chrf"},
    ProbeEvent: {"cosines": "probe_cosine", "target": "target"},
}


def scalars(event: Event) -> dict[str, float]:
    """The numbers of an event under the names that trackers show, such as `train/loss` or `mixture/aze-en`."""
    return {tag: value for tag, value in _tagged(event) if isinstance(value, int | float)}


def _tagged(event: Event) -> Iterator[tuple[str, Any]]:
    for group, names in NUMBERS.get(type(event), {}).items():
        yield from ((f"{group}/{name}", getattr(event, name)) for name in names)
    for name, group in BY_DIRECTION.get(type(event), {}).items():
        yield from ((f"{group}/{direction}", value) for direction, value in (getattr(event, name) or {}).items())


class TensorBoard:
    """Writes event files for TensorBoard into a folder.

    A resumed run names the step it goes on from: points from there on are purged, as they will be made again. Those
    that the log kept, because they came before the checkpoint, are put back.
    """

    def __init__(self, folder: Path, purge_step: int | None = None, kept: Sequence[Event] = ()) -> None:
        package = _package("torch.utils.tensorboard", "TensorBoard", "tensorboard")
        self._writer: Any = package.SummaryWriter(str(folder), purge_step=purge_step)
        self._last_step: dict[str, int] = {}
        for event in kept:
            if purge_step is not None and event.step >= purge_step:
                self.read(event)

    def read(self, event: Event) -> None:
        """Write the numbers of an event; one that comes twice at a step (`balance`, then `interval`) once."""
        time = datetime.fromisoformat(event.time).timestamp()
        for tag, value in scalars(event).items():
            if self._last_step.get(tag) != event.step:
                self._last_step[tag] = event.step
                self._writer.add_scalar(tag, value, event.step, walltime=time)
        self._writer.flush()  # what comes before a checkpoint is never written again, so it must not be lost

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class WeightsAndBiases:
    """Sends the numbers to Weights & Biases, or keeps them in the run's folder if WANDB_MODE=offline.

    The id is stored in the folder, so that a resumed run is the same run there. What W&B was given is not what it has:
    a kill loses what it had not written yet. So a resumed run asks it where it stands and hands it the rest of the log.
    Offline it starts from nothing, and gets all: of several parts with one id, the one that is synced last replaces the
    others, and the newest is complete.
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
                # It shall not take over the terminal, nor draw curves of a hundred numbers there at the end.
                settings=package.Settings(console="off", quiet=True),
            )
        except package.Error as error:
            advice = "log in with `wandb login`, or set WANDB_MODE=offline to send the run later"
            raise ValueError(f"Weights & Biases cannot start: {error}; {advice}") from error
        self._first_step: int = self._run.step  # it has all before, and never takes a point back
        for event in kept:
            self.read(event)

    def read(self, event: Event) -> None:
        """Send the numbers of an event, and the configuration when it comes."""
        if isinstance(event, ConfigEvent):
            self._run.config.update(dict(event.config), allow_val_change=True)
        numbers = scalars(event)
        if numbers and event.step >= self._first_step:
            self._run.log(numbers, step=event.step)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


def _stored_id(file: Path, resume: bool) -> str:
    """The id of the run in this folder; a new run gets a new one."""
    stored = file.read_text(encoding="utf-8").strip() if resume and file.exists() else ""
    identity = stored or uuid4().hex[:8]
    file.parent.mkdir(parents=True, exist_ok=True)  # where there is no such folder, W&B writes to /tmp
    file.write_text(identity + "\n", encoding="utf-8")
    return identity


def _package(module: str, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f'{name} is not installed: pip install "evenglot[{extra}]"') from error


def _tensorboard(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return TensorBoard(folder / "tensorboard", step, kept)


def _weights_and_biases(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return WeightsAndBiases(folder, step > 0, kept)


TRACKERS: dict[str, Callable[[Path, int, Sequence[Event]], Reader]] = {
    "tensorboard": _tensorboard,
    "wandb": _weights_and_biases,
}


def trackers(names: Sequence[str], folder: Path, step: int = 0, kept: Sequence[Event] = ()) -> list[Reader]:
    """Readers of these names for the run in a folder, which goes on from this step (0: a new run).

    `kept` are the events of the log after it was rewound to the checkpoint: `read_log(folder / "log.jsonl")`.
    """
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"unknown tracker {name!r}: {did_you_mean(name, TRACKERS)}")
    return [TRACKERS[name](folder, step, kept) for name in names]
