"""TensorBoard, Weights & Biases, Trackio and MLflow as optional readers of the event log. None can stop a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from evenglot.extras import MissingExtraError
from evenglot.runs.events import Event
from evenglot.runs.log import Reader
from evenglot.training.trackers.mlflow import MLflow
from evenglot.training.trackers.scalars import scalars
from evenglot.training.trackers.tensorboard import TensorBoard
from evenglot.training.trackers.trackio import Trackio
from evenglot.training.trackers.wandb import WeightsAndBiases
from evenglot.wording import did_you_mean

__all__ = ["TRACKERS", "MLflow", "TensorBoard", "Trackio", "WeightsAndBiases", "scalars", "trackers"]


def _tensorboard(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return TensorBoard(folder / "tensorboard", step, kept)


def _weights_and_biases(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return WeightsAndBiases(folder, step > 0, kept)


def _trackio(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return Trackio(folder, step > 0, kept)


def _mlflow(folder: Path, step: int, kept: Sequence[Event]) -> Reader:
    return MLflow(folder, step > 0, kept)


TRACKERS: dict[str, Callable[[Path, int, Sequence[Event]], Reader]] = {
    "tensorboard": _tensorboard,
    "wandb": _weights_and_biases,
    "trackio": _trackio,
    "mlflow": _mlflow,
}


def trackers(names: Sequence[str], folder: Path, step: int = 0, kept: Sequence[Event] = ()) -> list[Reader]:
    """Trackers of these names for the run in a folder, which continues from `step` (0: a new run).

    `kept`: the events of the log after it was rewound to the checkpoint, from `read_log(folder / "log.jsonl")`. An
    unknown name and a missing package are errors; a tracker that fails to start, such as one without a connection, is
    left out with a warning, as one that fails later is.
    """
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"unknown tracker {name!r}: {did_you_mean(name, TRACKERS)}")
    started = []
    for name in names:
        try:
            started.append(TRACKERS[name](folder, step, kept))
        except MissingExtraError:
            raise
        except Exception as error:
            with suppress(OSError, ValueError):  # standard error may be closed
                print(f"warning: training without the tracker {name}: {error}", file=sys.stderr)
    return started
