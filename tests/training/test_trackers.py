import json
import math
import os
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from evenglot.runs.events import DoneEvent, IntervalEvent, StepEvent, ValidationEvent
from evenglot.runs.log import Log, read_log
from evenglot.training.trackers import TensorBoard, WeightsAndBiases, scalars, trackers
from evenglot.training.trackers.mlflow import PATIENCE as MLFLOW_PATIENCE
from tests.logs import event
from tests.patience import PATIENCE

Points = dict[str, list[tuple[int, float]]]


def _train(log: Log, first: int, last: int, checkpoints: dict[int, int]) -> None:
    """The events of a run whose numbers depend on nothing but the step; a checkpoint and a balance every 4 updates."""
    for step in range(first, last + 1):
        if (step - 1) % 4 == 0:
            log.write(
                event(
                    "interval", step - 1, mixture={"aze-en": 0.1 + step / 100, "tur-en": 0.9 - step / 100}, padding=0.1
                )
            )
        losses = {"aze-en": 5 - step / 10, "tur-en": None if step % 2 else 4 - step / 10}
        numbers = {
            "learning_rate": 3e-4 / step,
            "tokens_per_second": 4000,
            "gradient_norm": math.nan,
            "tokens": 9 * step,
        }
        log.write(event("step", step, loss=4.5 - step / 10, losses=losses, **numbers))
        if step % 4 == 0:
            mixture = {"aze-en": 0.1 + (step + 1) / 100, "tur-en": 0.9 - (step + 1) / 100}
            log.write(event("balance", step, mixture=mixture, losses=losses, realised=mixture, changed=True))
            loss = {"aze-en": 6 - step / 10, "tur-en": 3 - step / 10}
            means = {"pooled": 3.5, "macro": 4.5, "worst": 6 - step / 10, "score": 4.5}
            log.write(event("validation", step, loss=loss, chrf={"aze-en": 20.0, "tur-en": 30.5}, **means, best=True))
            log.write(event("checkpoint", step, folder=f"checkpoints/{step}"))
            checkpoints[step] = log.size


def _points_of_log(path: Path) -> Points:
    points: dict[str, dict[int, float]] = {}
    for each in read_log(path):
        for tag, value in scalars(each).items():
            points.setdefault(tag, {}).setdefault(each.step, value)
    return {tag: list(values.items()) for tag, values in points.items()}


def _points_of_tensorboard(folder: Path) -> Points:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [(point.step, point.value) for point in accumulator.Scalars(tag)] for tag in tags}


def _same(one: Points, other: Points) -> None:
    assert one.keys() == other.keys()
    for tag, points in one.items():
        assert [step for step, _ in points] == [step for step, _ in other[tag]], tag
        assert [value for _, value in points] == pytest.approx([value for _, value in other[tag]], rel=1e-6), tag


def test_numbers_have_names_in_groups_and_those_that_are_missing_are_left_out() -> None:
    step = StepEvent(step=1, loss=2.5, learning_rate=None, losses={"aze-en": 3.0, "b-en": None})
    assert scalars(step) == {"train/loss": 2.5, "train/tokens": 0, "train_loss/aze-en": 3.0}
    validation = ValidationEvent(step=1, macro=3, loss={"aze-en": 3.0}, best=True)
    assert scalars(validation) == {"valid/macro": 3, "valid/seconds": 0.0, "valid_loss/aze-en": 3.0}
    assert scalars(IntervalEvent(step=0, mixture={"aze-en": 1.0})) == {"mixture/aze-en": 1.0}
    assert scalars(DoneEvent(step=9, seconds=3.0)) == {}


def test_tensorboard_shows_the_numbers_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path, trackers(["tensorboard"], tmp_path))
    _train(log, 1, 10, {})
    log.close()
    points = _points_of_tensorboard(tmp_path / "tensorboard")
    _same(points, _points_of_log(path))
    assert {"train/loss", "train/learning_rate", "mixture/aze-en", "valid/macro", "valid_chrf/tur-en"} <= points.keys()
    assert "train/gradient_norm" not in points  # it was never a number


def test_tensorboard_has_every_point_once_after_a_crash_and_a_resume(tmp_path: Path) -> None:
    path, checkpoints = tmp_path / "log.jsonl", dict[int, int]()
    log = Log(path, trackers(["tensorboard"], tmp_path))
    _train(log, 1, 11, checkpoints)  # and here it crashes: nothing is closed properly
    resumed = Log(path)
    resumed.rewind(checkpoints[8])
    resumed.readers += trackers(["tensorboard"], tmp_path, step=8, kept=read_log(path))
    resumed.write(event("resume", 8, folder="checkpoints/8"))
    _train(resumed, 9, 14, checkpoints)
    resumed.close()
    log.close()
    points = _points_of_tensorboard(tmp_path / "tensorboard")
    _same(points, _points_of_log(path))
    assert [step for step, _ in points["train/loss"]] == list(range(1, 15))


def test_a_new_run_in_an_old_folder_starts_afresh(tmp_path: Path) -> None:
    for last in (9, 5):
        log = Log(tmp_path / "log.jsonl")
        log.rewind(0)
        log.readers += trackers(["tensorboard"], tmp_path)
        _train(log, 1, last, {})
        log.close()
    _same(_points_of_tensorboard(tmp_path / "tensorboard"), _points_of_log(tmp_path / "log.jsonl"))


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    import wandb

    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):  # not those of the person who tests
        monkeypatch.setenv(name, str(tmp_path / "home"))
    yield
    wandb.teardown()  # ends the process it works with


def _records(file: Path) -> Iterator[Any]:
    """What an offline run has on disk: 7 bytes, then LevelDB's log format, in it W&B's records.

    Every block of 32 KiB holds pieces, each with its checksum (4 bytes), length (2) and kind (1: whole, 2: first, 3:
    middle, 4: last); less than 7 bytes at the end of a block are not used.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    content, position, data = file.read_bytes(), 7, b""
    while position + 7 <= len(content):
        if (left := 32768 - position % 32768) < 7:
            position += left
            continue
        length, kind = struct.unpack_from("<HB", content, position + 4)
        if position + 7 + length > len(content):  # still being written
            return
        data += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(data)
            yield record
            data = b""


def _finished_records(file: Path) -> list[Any]:
    """All records; W&B's own process may still be writing when `finish` has returned."""
    deadline = monotonic() + PATIENCE
    while monotonic() < deadline:
        records = list(_records(file))
        if records and records[-1].WhichOneof("record_type") == "exit":
            return records
        sleep(0.05)
    raise TimeoutError(f"{file} was not finished")


def _points_of_wandb(records: list[Any]) -> Points:
    points: Points = {}
    for record in records:
        if record.WhichOneof("record_type") == "history":
            row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for tag in row.keys() - {"_step", "_runtime", "_timestamp"}:
                points.setdefault(tag, []).append((row["_step"], row[tag]))
    return points


def _offline_runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))


@pytest.mark.usefixtures("_offline")
def test_weights_and_biases_shows_the_numbers_of_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    log = Log(folder / "log.jsonl", trackers(["wandb"], folder))
    log.write(event("config", 0, directions={}, config={"train": {"learning_rate": 3e-4}}))
    _train(log, 1, 11, {})
    log.close()
    (file,) = _offline_runs(folder)
    records = _finished_records(file)
    _same(_points_of_wandb(records), _points_of_log(folder / "log.jsonl"))
    run = next(record.run for record in records if record.WhichOneof("record_type") == "run")
    assert (run.project, run.display_name) == ("evenglot", "run")
    changes = [record.config for record in records if record.WhichOneof("record_type") == "config"]
    assert any(item.key == "train" and "0.0003" in item.value_json for change in changes for item in change.update)


CRASH = """
import json, os, signal, sys
from pathlib import Path
from evenglot.runs.log import Log
from evenglot.training.trackers import trackers
from tests.training.test_trackers import _train
folder, checkpoints = Path(sys.argv[1]), {}
log = Log(folder / "log.jsonl", trackers(["wandb"], folder))
_train(log, 1, 11, checkpoints)
(folder / "size").write_text(str(checkpoints[8]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("_offline")
def test_after_a_kill_the_newest_part_of_an_offline_run_has_every_point_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", CRASH, str(folder)], cwd=root, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (first,) = _offline_runs(folder)
    sleep(1.1)  # the folders are named by the second

    path = folder / "log.jsonl"
    log = Log(path)
    log.rewind(int((folder / "size").read_text()))
    log.readers += trackers(["wandb"], folder, step=8, kept=read_log(path))
    _train(log, 9, 14, {})
    log.close()
    (second,) = set(_offline_runs(folder)) - {first}
    assert first.name == second.name  # the same id
    _same(_points_of_wandb(_finished_records(second)), _points_of_log(path))


class FakeRun:
    """A run that W&B's server knows: it has every step below this one."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.rows: list[int] = []

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.rows.append(step)

    def finish(self) -> None:
        pass


@pytest.mark.parametrize(("has", "sent"), [(12, [12, 13, 14]), (6, list(range(6, 15))), (0, list(range(15)))])
def test_an_online_run_is_sent_what_the_server_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: int, sent: list[int]
) -> None:
    import wandb

    path, checkpoints, run = tmp_path / "log.jsonl", dict[int, int](), FakeRun(has)
    log = Log(path)
    _train(log, 1, 11, checkpoints)
    log.rewind(checkpoints[8])
    monkeypatch.setattr(wandb, "init", lambda **settings: run)
    log.readers += trackers(["wandb"], tmp_path, step=8, kept=read_log(path))
    _train(log, 9, 14, {})
    log.close()
    assert sorted(set(run.rows)) == sent
    assert run.rows == sorted(run.rows)  # W&B drops what comes out of order


@pytest.mark.usefixtures("_offline")
def test_a_new_run_gets_an_id_of_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        log = Log(None, [WeightsAndBiases(tmp_path)])
        log.write(event("step", 1, loss=1.0))
        log.close()
    assert len({file.name for file in _offline_runs(tmp_path)}) == 2


@pytest.fixture
def trackio_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A place of its own, which Trackio reads from the environment when it is imported."""
    for name in [name for name in os.environ if name.startswith("TRACKIO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "trackio"


def _points_of_trackio(file: Path) -> Points:
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("select step, metrics from metrics order by id").fetchall()
    points: Points = {}
    for step, metrics in rows:
        for tag, value in json.loads(metrics).items():
            points.setdefault(tag, []).append((step, value))
    return points


@pytest.fixture
def mlflow_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    address = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    for name, value in MLFLOW_PATIENCE.items():  # set here, so that they are gone afterwards
        monkeypatch.setenv(name, value)
    return address


def _crash_and_resume(name: str, folder: Path) -> Path:
    """A run that is resumed from its checkpoint at step 8, after it was lost at step 11."""
    path, checkpoints = folder / "log.jsonl", dict[int, int]()
    log = Log(path, trackers([name], folder))
    log.write(event("config", 0, directions={}, config={"train": {"learning_rate": 3e-4}, "seed": 1}))
    _train(log, 1, 11, checkpoints)
    log.close()
    resumed = Log(path)
    resumed.rewind(checkpoints[8])
    resumed.readers += trackers([name], folder, step=8, kept=read_log(path))
    _train(resumed, 9, 14, checkpoints)
    resumed.close()
    return path


def test_trackio_has_every_point_of_a_resumed_run_once(tmp_path: Path, trackio_folder: Path) -> None:
    path = _crash_and_resume("trackio", tmp_path / "run")
    (file,) = trackio_folder.glob("evenglot*.db")
    _same(_points_of_trackio(file), _points_of_log(path))
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("select count(distinct run_name) from metrics").fetchone() == (1,)
        (config,) = database.execute("select config from configs").fetchone()
    assert json.loads(config)["train"] == {"learning_rate": 3e-4}


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning")  # MLflow's, about SQLAlchemy
def test_mlflow_has_every_point_of_a_resumed_run_once(tmp_path: Path, mlflow_database: str) -> None:
    from mlflow import MlflowClient

    path = _crash_and_resume("mlflow", tmp_path / "run")
    client = MlflowClient(mlflow_database)
    (run,) = client.search_runs([client.get_experiment_by_name("evenglot").experiment_id])
    history = {tag: client.get_metric_history(run.info.run_id, tag) for tag in run.data.metrics}
    _same({tag: [(p.step, p.value) for p in points] for tag, points in history.items()}, _points_of_log(path))
    assert run.data.params == {"train.learning_rate": "0.0003", "seed": "1"}
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")


@pytest.mark.usefixtures("mlflow_database")
def test_a_tracker_that_cannot_start_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")  # where nobody listens
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    started = trackers(["mlflow", "tensorboard"], tmp_path)
    assert [type(each) for each in started] == [TensorBoard]
    assert "mlflow" in capsys.readouterr().err
    started[0].close()


def test_weights_and_biases_that_cannot_start_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    def refuse(**settings: object) -> None:
        raise wandb.errors.UsageError("api_key not configured (no-tty)")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(ValueError, match="api_key not configured.*WANDB_MODE=offline"):
        WeightsAndBiases(tmp_path)


MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "trackio": "trackio", "mlflow": "mlflow"}


@pytest.mark.parametrize(("name", "module"), MODULES.items())
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf'pip install "evenglot\[{name}\]"'):
        trackers([name], tmp_path)


def test_an_unknown_tracker_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'tensorbord'.*'tensorboard'"):
        trackers(["tensorboard", "tensorbord"], tmp_path)
    assert not list(tmp_path.iterdir())
    assert trackers([], tmp_path) == []


def test_a_full_disk_under_tensorboard_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tensorboard = TensorBoard(tmp_path / "tensorboard")

    def fail() -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(tensorboard._writer, "flush", fail)
    log = Log(tmp_path / "log.jsonl", [tensorboard])
    log.write(event("step", 1, loss=1.0))
    log.write(event("step", 2, loss=1.0))
    log.close()
    monkeypatch.undo()
    tensorboard.close()
    assert "TensorBoard" in capsys.readouterr().err
    assert len(read_log(tmp_path / "log.jsonl")) == 2
