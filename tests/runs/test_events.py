"""Events: what is written is read back, older logs are migrated, and wrong shapes are refused with file and line."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from evenglot.runs.events import (
    FORMAT,
    KINDS,
    AverageEvent,
    BalanceEvent,
    ConfigEvent,
    DirectionFacts,
    DoneEvent,
    IntervalEvent,
    ProbeEvent,
    ReferenceCost,
    StepEvent,
    UnknownEvent,
    ValidationEvent,
    WarningEvent,
    of_kind,
    parse,
    to_json,
)
from evenglot.runs.history import history
from evenglot.runs.log import TAIL, Log, copy_log, last_step, read_log
from tests.logs import json_events

KEPT = sorted((Path(__file__).parents[2] / "experiments").rglob("log.jsonl"))
CONFIG = ConfigEvent(step=0, strategy="erm", directions={"aa-en": DirectionFacts(pairs=10, p=1.0, q=1.0)})
OLD_PASSES = "slk-en: its 1,610 pairs will have been shown 50 times after this interval; watch its validation loss"
OLD_OVERFITTING = (
    "en-slk: validation loss 5.433 has risen from 5.267 while training loss falls (2.051), after 54 passes"
)


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_kind_of_event_is_read_back_as_it_was_written(kind: type, tmp_path: Path) -> None:
    needed: dict[type, dict[str, Any]] = {ConfigEvent: {"directions": CONFIG.directions}, WarningEvent: {"message": ""}}
    event = kind(step=7, **needed.get(kind, {}))
    log = Log(tmp_path / "log.jsonl")
    written = log.write(event)
    log.close()
    assert read_log(tmp_path / "log.jsonl") == [written]
    (line,) = json_events(tmp_path / "log.jsonl")
    assert KINDS[line["event"]] is kind
    assert list(line)[:3] == ["event", "step", "time"]
    assert line.keys() - {"event"} <= {field.name for field in fields(kind)}


def test_nested_records_are_objects_and_come_back() -> None:
    event = ConfigEvent(step=0, directions=CONFIG.directions, reference=ReferenceCost(updates=5))
    content = to_json(event)
    assert content["format"] == FORMAT
    assert content["directions"]["aa-en"]["pairs"] == 10
    assert content["reference"] == {"updates": 5}  # what is not known is left out
    assert parse(content) == event


@pytest.mark.parametrize(
    ("event", "key"),
    [
        (IntervalEvent(step=1), "lag"),
        (StepEvent(step=1), "target"),
        (ProbeEvent(step=1), "target"),
        (ValidationEvent(step=1), "chrf"),
        (AverageEvent(step=1), "loss"),
        (WarningEvent(step=1, message="m"), "direction"),
    ],
)
def test_keys_that_only_some_events_have_are_left_out_of_the_others(event: Any, key: str) -> None:
    assert key not in to_json(event)
    assert to_json(AverageEvent(step=1))["score"] is None  # but a score that is not known is null


def test_a_lag_is_a_number_of_updates_and_older_logs_have_none() -> None:
    line = {"event": "interval", "step": 3, "time": "", "interval": 1, "updates": 50}
    old, new = parse(line), parse({**line, "lag": 49})
    assert (old.lag, new.lag) == (None, 49)
    assert to_json(new)["lag"] == 49
    with pytest.raises(ValueError, match="`lag`"):
        parse({**line, "lag": "long"})


def test_unknown_keys_and_unknown_events_are_kept() -> None:
    lines = [
        {"event": "step", "step": 3, "time": "", "loss": 1.0, "colour": {"a": [1]}},
        {"event": "eclipse", "step": 4, "time": "", "moon": True},
        {"event": "config", "step": 0, "directions": {"aa-en": {"pairs": 1, "p": 1.0, "mood": 3}}},
    ]
    step, unknown, config = (parse(line) for line in lines)
    assert step.extra == {"colour": {"a": [1]}}
    assert isinstance(unknown, UnknownEvent)
    assert (unknown.event, unknown.extra) == ("eclipse", {"moon": True})
    assert to_json(unknown) == lines[1]
    assert to_json(step).items() >= lines[0].items()
    assert isinstance(config, ConfigEvent)
    assert config.directions["aa-en"] == DirectionFacts(pairs=1, p=1.0)


# ------------------------------------------------------------------------------------------- versions, migration


def test_a_log_carries_its_version_and_an_old_one_is_version_1(tmp_path: Path) -> None:
    log = Log(tmp_path / "new.jsonl")
    log.write(CONFIG)
    log.close()
    (line,) = json_events(tmp_path / "new.jsonl")
    assert line["format"] == FORMAT
    del line["format"]
    (old,) = of_kind(read_log(write(tmp_path / "old.jsonl", line)), ConfigEvent)
    assert (old.format, old.directions) == (1, CONFIG.directions)


def test_a_log_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", {"event": "config", "step": 0, "format": FORMAT + 1, "directions": {}})
    with pytest.raises(ValueError, match=r"log\.jsonl:1: .*`format`"):
        read_log(path)


def test_warnings_of_version_1_get_their_kind_and_those_with_a_kind_keep_it(tmp_path: Path) -> None:
    config = {"event": "config", "step": 0, "directions": {}}
    messages: list[dict[str, Any]] = [
        {"message": OLD_PASSES},
        {"message": OLD_OVERFITTING},
        {"message": "the mixture is set 4 times in this run"},
        {"message": OLD_PASSES, "kind": "radius"},  # a run that was begun by an older version and resumed by this one
    ]
    path = write(tmp_path / "log.jsonl", config, *({"event": "warning", "step": 1, **each} for each in messages))
    found = [(event.kind, event.direction) for event in of_kind(read_log(path), WarningEvent)]
    assert found == [("passes", "slk-en"), ("overfitting", "en-slk"), ("other", None), ("radius", None)]


def test_the_text_of_a_warning_of_this_version_decides_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.write(CONFIG)
    log.write(WarningEvent(step=1, kind="radius", message=OLD_PASSES))
    log.close()
    (found,) = of_kind(read_log(tmp_path / "log.jsonl"), WarningEvent)
    assert (found.kind, found.direction) == ("radius", None)


def test_kept_logs_load() -> None:
    assert len(KEPT) > 100
    for path in KEPT[::10]:
        _check_kept(path)


@pytest.mark.slow
def test_all_kept_logs_load() -> None:
    for path in KEPT:
        _check_kept(path)


def _check_kept(path: Path) -> None:
    events, lines = read_log(path), json_events(path)
    assert len(events) == len(lines)
    for event, line in zip(events, lines, strict=True):
        assert not event.extra
        assert to_json(event).items() >= line.items()  # nothing is lost, nothing changed
    assert not of_kind(events, UnknownEvent)
    told = history(events)
    assert told.done is not None
    assert told.about.format == 1
    last = of_kind(events, BalanceEvent)[-1]
    assert sorted(last.mixture) == sorted(told.names)
    for warning in told.warnings:
        about = warning.message.partition(": ")[0]
        assert (warning.direction, warning.kind != "other") == ((about, True) if about in told.names else (None, False))


# ------------------------------------------------------------------------------------------------- wrong shapes


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ([], "object"),
        (3, "object"),
        ({"step": 1}, "event"),
        ({"event": 5, "step": 1}, "event"),
        ({"event": "step"}, "step"),
        ({"event": "step", "step": "1"}, "step"),
        ({"event": "step", "step": True}, "step"),
        ({"event": "step", "step": None}, "step"),
        ({"event": "eclipse", "step": 1.5}, "step"),
        ({"event": "step", "step": 1, "loss": "high"}, "loss"),
        ({"event": "step", "step": 1, "losses": [1.0]}, "losses"),
        ({"event": "step", "step": 1, "losses": {"aa-en": "x"}}, "losses"),
        ({"event": "interval", "step": 1, "pairs": {"aa-en": 1.5}}, "pairs"),
        ({"event": "interval", "step": 1, "mixture": None}, "mixture"),
        ({"event": "average", "step": 1, "steps": [1, "2"]}, "steps"),
        ({"event": "config", "step": 0}, "directions"),
        ({"event": "config", "step": 0, "directions": {"aa-en": 5}}, "directions.aa-en"),
        ({"event": "config", "step": 0, "directions": {"aa-en": {"p": 1.0}}}, "directions.aa-en.pairs"),
        ({"event": "config", "step": 0, "directions": {}, "reference": {"updates": "5"}}, "reference.updates"),
        ({"event": "config", "step": 0, "directions": {}, "config": {"balance": None}}, "config.balance"),
        ({"event": "config", "step": 0, "directions": {}, "config": {"train": "fast"}}, "config.train"),
        ({"event": "interval", "step": 1, "pairs": {"aa-en": -1}}, "pairs"),
        ({"event": "interval", "step": -1}, "step"),
        ({"event": "balance", "step": 1, "mixture": {"aa-en": -0.5}}, "mixture"),
        ({"event": "warning", "step": 0}, "message"),
        ({"event": "done", "step": 0, "reason": 1}, "reason"),
    ],
)
def test_a_line_of_the_wrong_shape_is_named(tmp_path: Path, line: Any, wrong: str) -> None:
    path = write(tmp_path / "log.jsonl", {"event": "step", "step": 1}, line)
    with pytest.raises(ValueError, match=r"log\.jsonl:2: ") as caught:
        read_log(path)
    assert wrong in str(caught.value)


def test_a_whole_number_is_a_float_as_well(tmp_path: Path) -> None:
    (done,) = of_kind(read_log(write(tmp_path / "log.jsonl", {"event": "done", "step": 1, "seconds": 9})), DoneEvent)
    assert done.seconds == 9


# ------------------------------------------------------------------------------------- the tail, and copies of logs


def test_the_last_step_is_that_of_the_last_complete_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert last_step(path) == 0
    path.write_bytes(b"")
    assert last_step(path) == 0
    path.write_bytes(b'{"event": "step", "step": 3')
    assert last_step(path) == 0
    path.write_bytes(
        b'{"time": "", "step": 12, "event": "step"}\n{"event": "eclipse","step":14}\n{"event": "step", "st'
    )
    assert last_step(path) == 14  # whatever the order of keys, the spaces and the kind
    path.write_bytes(b'{"event": "step", "step": 12}\n\0\0\0\n\n')
    assert last_step(path) == 12


def test_a_line_longer_than_the_tail_is_found(tmp_path: Path) -> None:
    long = {"event": "step", "step": 5, "losses": {f"d{i}": 1.0 for i in range(TAIL // 5)}}
    path = write(tmp_path / "log.jsonl", {"event": "step", "step": 4}, long)
    assert path.stat().st_size > 2 * TAIL
    assert last_step(path) == 5


def test_a_copy_keeps_format_and_unknown_keys(tmp_path: Path) -> None:
    lines = [{"event": "config", "step": 0, "directions": {}, "old": 1}, {"event": "eclipse", "step": 2}]
    source = write(tmp_path / "log.jsonl", *lines)
    with source.open("a") as log:
        log.write('{"event": "unfinis')
    copy_log(source, tmp_path / "copy.jsonl", lambda content: {**content, "step": content["step"] + 1})
    assert json_events(tmp_path / "copy.jsonl") == [{**line, "step": int(line["step"]) + 1} for line in lines]  # type: ignore[call-overload]
