"""MLflow: the tracking server of MLFLOW_TRACKING_URI, or MLflow's database in the working directory."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from evenglot.runs.events import ConfigEvent, Event
from evenglot.training.trackers.identity import read_id, store_id
from evenglot.training.trackers.package import import_package
from evenglot.training.trackers.scalars import scalars

LONGEST_VALUE = 500  # characters of a setting; MLflow's limit, before version 3
AT_ONCE = 100  # settings in a request: MLflow's limit
# A server that does not answer is given up after seconds instead of minutes, since training waits.
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}


class MLflow:
    """Sends scalars and settings to MLflow.

    The id of the MLflow run is stored in the run folder, so that a resumed run continues it. MLflow writes each point
    at once but removes none, so a resumed run sends those of the log that come after the last one of their tag.
    """

    def __init__(self, folder: Path, resume: bool = False, kept: Sequence[Event] = ()) -> None:
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        package = import_package("mlflow", "MLflow", "mlflow")
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it would tell of each table of a new database
        self._entities: Any = package.entities
        self._client: Any = package.MlflowClient()
        file = folder / "mlflow" / "id.txt"
        self._id = read_id(file) if resume else None
        self._last_step: dict[str, int] = {}
        if self._id is None:
            self._id = self._create(folder.resolve().name)
            store_id(file, self._id)
        else:
            self._recall()
        for event in kept:
            self.read(event)

    def _create(self, name: str) -> str:
        project = os.environ.get("MLFLOW_EXPERIMENT_NAME", "evenglot")
        experiment = self._client.get_experiment_by_name(project)
        number = self._client.create_experiment(project) if experiment is None else experiment.experiment_id
        return str(self._client.create_run(number, run_name=name).info.run_id)

    def _recall(self) -> None:
        """The last step of each tag that MLflow has; the run is under way again."""
        self._client.update_run(self._id, status="RUNNING")
        for tag in self._client.get_run(self._id).data.metrics:
            self._last_step[tag] = max(point.step for point in self._client.get_metric_history(self._id, tag))

    def read(self, event: Event) -> None:
        """Send the scalars of an event; of a `config` event, the configuration."""
        if isinstance(event, ConfigEvent) and not self._last_step:  # settings of a run cannot change
            self._send_settings(event.config)
        time = int(1000 * datetime.fromisoformat(event.time).timestamp())
        numbers = {tag: value for tag, value in scalars(event).items() if event.step > self._last_step.get(tag, -1)}
        points = [self._entities.Metric(tag, value, time, event.step) for tag, value in numbers.items()]
        if points:
            self._client.log_batch(self._id, metrics=points)
            self._last_step.update(dict.fromkeys(numbers, event.step))

    def _send_settings(self, config: Mapping[str, Any]) -> None:
        settings = [self._entities.Param(name, str(value)[:LONGEST_VALUE]) for name, value in _flat(config)]
        for first in range(0, len(settings), AT_ONCE):
            self._client.log_batch(self._id, params=settings[first : first + AT_ONCE])

    def close(self) -> None:
        """End the MLflow run."""
        self._client.set_terminated(self._id)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by names such as `train.learning_rate`."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
