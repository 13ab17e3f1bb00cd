import math
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenglot.runs.events import Event, StepEvent, of_kind
from evenglot.runs.log import ChangedLogError, Log, last_step, read_log
from evenglot.runs.standings import Standings
from tests.logs import event


class Memory:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = 0

    def read(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1


class FullDisk(Memory):
    def read(self, event: Event) -> None:
        super().read(event)
        raise OSError("no space left on device")


def test_an_event_is_on_disk_at_once_and_every_reader_gets_the_same(tmp_path: Path) -> None:
    readers = [Memory(), Memory()]
    log = Log(tmp_path / "run" / "log.jsonl", readers)
    log.write(event("step", 3, loss=1.5, losses={"aze-en": None, "tur-en": 2}))
    (written,) = read_log(tmp_path / "run" / "log.jsonl")
    assert isinstance(written, StepEvent)
    assert (written.step, written.losses) == (3, {"aze-en": None, "tur-en": 2})
    assert readers[0].events == readers[1].events == [written]
    log.close()
    log.close()
    assert [reader.closed for reader in readers] == [1, 1]


def test_without_a_path_readers_are_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Memory()
    log = Log(None, [reader])
    log.write(event("step", 1, loss=1.0))
    log.sync()
    log.rewind(0)
    assert log.size == 0
    log.close()
    assert [each.step for each in reader.events] == [1]
    assert not list(tmp_path.iterdir())


def test_numbers_that_are_not_finite_are_null_and_array_numbers_are_plain(tmp_path: Path) -> None:
    reader = Memory()
    log = Log(tmp_path / "log.jsonl", [reader])
    strange = {"a": math.nan, "b": [math.inf, 1.0], "c": np.float32("-inf"), "d": np.float32(0.5), "e": np.int64(7)}
    log.write(event("step", 1, **strange, f=torch.tensor([1.0, math.nan]), g=Path("x") / "y", h=(1, True), i="ä"))
    log.close()
    expected = {"a": None, "b": [None, 1.0], "c": None, "d": 0.5, "e": 7, "f": [1.0, None], "h": [1, True], "i": "ä"}
    (written,) = read_log(tmp_path / "log.jsonl")
    assert written.extra == {**expected, "g": str(Path("x") / "y")}
    assert reader.events == [written]
    assert "NaN" not in (tmp_path / "log.jsonl").read_text(encoding="utf-8")


def test_a_log_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.jsonl")
    with pytest.raises(ValueError, match="log.jsonl: not a regular file"):
        Log(tmp_path / "log.jsonl")
    with pytest.raises(ValueError, match="log.jsonl: not a regular file"):
        read_log(tmp_path / "log.jsonl")
    assert last_step(tmp_path / "log.jsonl") == 0


def test_rewind_forgets_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path)
    log.write(event("step", 1))
    log.sync()
    size = log.size
    assert size == path.stat().st_size
    log.write(event("step", 2, loss=9.0))
    log.write(event("step", 3))
    log.close()

    log = Log(path)  # the next process
    log.rewind(size)
    log.write(event("step", 2, loss=1.0))
    assert [(each.step, each.loss) for each in of_kind(read_log(path), StepEvent)] == [(1, None), (2, 1.0)]
    log.rewind(0)
    log.write(event("step", 1))
    assert len(read_log(path)) == 1
    log.close()


def test_rewind_keeps_a_file_that_is_shorter_than_it_should_be(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.write(event("step", 1))
    log.rewind(10_000)
    log.write(event("step", 2))
    assert [each.step for each in read_log(tmp_path / "log.jsonl")] == [1, 2]
    log.close()


@settings(max_examples=100)
@given(st.lists(st.booleans(), max_size=12), st.binary(max_size=30))
def test_the_hash_is_that_of_the_file_however_it_came_about(reopened: list[bool], tail: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        log = Log(path)
        for step, again in enumerate(reopened):
            log.write(event("step", step))
            if again:
                log.close()
                with path.open("ab") as file:
                    file.write(tail)  # by a process that was killed
                log = Log(path)
                log.rewind(log.size // 2)
            assert log.hash == sha256(path.read_bytes()).hexdigest()
        log.close()


@pytest.mark.parametrize(
    "damage", [lambda text: b"", lambda text: text[:-30], lambda text: text.replace(b"1", b"2", 1)]
)
def test_a_log_that_is_not_that_of_the_checkpoint_is_refused_and_left_alone(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path)
    for step in range(3):
        log.write(event("step", step))
    size, expected = log.size, log.hash
    log.write(event("step", 3))
    log.close()
    content = damage(path.read_bytes()[:size])
    path.write_bytes(content)
    log = Log(path)
    left = path.read_bytes()
    with pytest.raises(ChangedLogError, match=str(path)):
        log.rewind(size, expected)
    assert path.read_bytes() == left
    log.close()


@pytest.mark.parametrize("tail", [b'{"event": "st', '{"event": "ä'.encode()[:-1], b"\0\0\0", b""])
def test_an_unfinished_last_line_is_left_out_and_does_not_spoil_the_next(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"event": "step", "step": 1}\n' + tail)
    assert [each.step for each in read_log(path)] == [1]
    log = Log(path)
    log.write(event("step", 2))
    log.close()
    assert [each.step for each in read_log(path)] == [1, 2]


def test_a_broken_line_in_the_middle_is_pointed_at(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "step", "step": 1}\noops\n{"event": "step", "step": 2}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"log\.jsonl:2: "):
        read_log(path)


def test_a_reader_that_fails_is_dropped_with_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken, fine = FullDisk(), Memory()
    log = Log(tmp_path / "log.jsonl", [broken, fine])
    for step in range(3):
        log.write(event("step", step))
    log.close()
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "FullDisk" in complaint
    assert "no space left on device" in complaint
    assert len(broken.events) == 1
    assert len(fine.events) == len(read_log(tmp_path / "log.jsonl")) == 3


def test_a_reader_that_cannot_close_does_not_keep_the_others_open(capsys: pytest.CaptureFixture[str]) -> None:
    class Stuck(Memory):
        def close(self) -> None:
            raise RuntimeError("offline")

    fine = Memory()
    Log(None, [fine, Stuck()]).close()
    assert fine.closed == 1
    assert "Stuck" in capsys.readouterr().err


def test_standings_count_passes_by_what_was_drawn_and_is_done() -> None:
    standings = Standings()
    directions = {"aze-en": {"pairs": 100, "p": 0.1, "q": 0.2}, "tur-en": {"pairs": 900, "p": 0.9, "q": 0.8}}
    standings.take([event("config", 0, directions=directions)])
    assert standings.passes("aze-en") == 0
    drawn = {"aze-en": 200, "tur-en": 900}
    standings.take([event("interval", 0, updates=10, pairs=drawn, mixture={"aze-en": 0.2, "tur-en": 0.8})])
    standings.take([event("step", 5, losses={"aze-en": 3.0, "tur-en": None})])
    assert standings.passes("aze-en") == 1.0
    standings.take([event("step", 10, losses={"aze-en": None, "tur-en": 2.0})])
    standings.take([event("balance", 10, mixture={"aze-en": 0.5, "tur-en": 0.5})])
    assert standings["aze-en"].q == 0.2  # a plan so far
    standings.take([event("interval", 10, updates=10, pairs=drawn, mixture={"aze-en": 0.5, "tur-en": 0.5})])
    standings.take([event("step", 20, losses={})])
    assert standings.passes("aze-en") == 4.0
    assert standings.passes("tur-en") == 2.0
    aze = standings["aze-en"]
    assert (aze.first_q, aze.q, aze.q_over_p, aze.train_loss) == (0.2, 0.5, 5.0, 3.0)


def test_standings_remember_the_validation_before() -> None:
    standings = Standings()
    standings.take([event("validation", 1, loss={"aze-en": 5.0}), event("validation", 2, loss={"aze-en": 4.0})])
    assert (standings["aze-en"].valid_loss_before, standings["aze-en"].valid_loss) == (5.0, 4.0)
