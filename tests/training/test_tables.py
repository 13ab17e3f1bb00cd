import re
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from evenglot.runs.events import ConfigEvent, Event
from evenglot.runs.standings import best_validation
from evenglot.training.tables import end_table, start_summary, start_table
from evenglot.wording import duration, number, percent
from tests.logs import event

CONTENT = {
    "directions": {
        "aze-en": {
            "pairs": 5946,
            "target_tokens": 100_000,
            "p": 0.1,
            "q": 0.25,
            "passes_per_interval": 2.5,
            "total_passes": 50,
        },
        "zho_Hans-eng_Latn": {
            "pairs": 40_000_000,
            "target_tokens": 1_000_000_000,
            "p": 0.9,
            "q": 0.75,
            "passes_per_interval": 0.833,
            "total_passes": 16.7,
        },
        "bel-en": {"pairs": 7, "target_tokens": 90, "p": 0.00001, "q": 0.004, "passes_per_interval": None},
    },
    "strategy": "chi-ibr",
    "parameters": 5_300_000,
    "device": "cpu",
    "precision": "float32",
    "processes": 2,
    "threads": 1,
    "tokens_per_update": 4096,
    "updates": 20_000,
    "updates_per_interval": 1000,
    "seconds_estimated": 10_260,
}


def _config(**changes: object) -> ConfigEvent:
    found = event("config", 0, **{**CONTENT, **changes})
    assert isinstance(found, ConfigEvent)
    return found


CONFIG = _config()


def _lines(shown: Table) -> list[str]:
    output = StringIO()
    Console(file=output, width=80).print(shown)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def _rows(shown: Table) -> dict[str, list[str]]:
    words = [line.split() for line in _lines(shown)]
    return {line[0]: line[1:] for line in words if line and "-en" in line[0]}


def test_the_start_table_has_the_largest_first_and_fits_80_columns() -> None:
    shown = start_table(CONFIG)
    rows = _rows(shown)
    assert list(rows) == ["zho_Hans-eng_Latn", "aze-en", "bel-en"]
    assert rows["zho_Hans-eng_Latn"] == ["40,000,000", "1,000,000,000", "90.0", "75.0", "0.83", "16.7"]
    assert rows["aze-en"] == ["5,946", "100,000", "10.0", "25.0", "2.50", "50.0"]
    assert rows["bel-en"] == ["7", "90", "<0.01", "0.40", "-", "-"]
    assert "…" not in "".join(_lines(shown))


def test_the_summary_tells_what_works_and_how_long() -> None:
    hardware, length = start_summary(CONFIG).splitlines()
    assert all(fact in hardware for fact in ("chi-ibr", "5.3 million", "cpu", "float32", "2 processes", "1 thread"))
    assert all(fact in length for fact in ("20,000 updates", "4,096 tokens", "1,000 per interval", "2 h 51 min"))
    unsure = _config(seconds_estimated=None, updates_per_interval=0, parameters=51_200)
    hardware, length = start_summary(unsure).splitlines()
    assert "51,200" in hardware
    assert "trained" not in hardware
    assert "(1.5 million trained)" in start_summary(_config(trained=1_500_000))
    assert "interval" not in length
    assert re.findall(r"[\d,]+", length) == ["20,000", "4,096"]  # and no duration


def _events(chrf: bool) -> list[Event]:
    names = list(CONFIG.directions)
    drawn = {name: 2 * facts.pairs for name, facts in CONFIG.directions.items()}
    first, last = dict.fromkeys(names, 0.25), dict.fromkeys(names, 0.5)

    def validation(step: int, loss: float, best: bool) -> Event:
        scores = {"chrf": dict.fromkeys(names, 100.0)} if chrf else {}
        return event("validation", step, loss=dict.fromkeys(names, loss), best=best, **scores)

    return [
        CONFIG,
        event("interval", 0, updates=10, pairs=drawn, mixture=first),
        event("step", 10, losses=dict.fromkeys(names, 10.25)),
        validation(10, 3.5, True),
        event("interval", 10, updates=10, pairs=drawn, mixture=last),
        event("step", 15, losses={"aze-en": None, "bel-en": 2.0}),
        validation(15, 3.75, False),
        event("done", 15),
    ]


def test_the_end_table_shows_the_best_model_and_what_was_really_read() -> None:
    rows = _rows(end_table(_events(chrf=False)))
    assert list(rows) == ["zho_Hans-eng_Latn", "aze-en", "bel-en"]
    assert rows["aze-en"] == ["5,946", "3.0", "25.0", "50.0", "10.250", "3.500"]  # the second interval was half done
    assert rows["bel-en"] == ["7", "3.0", "0.40", "50.0", "2.000", "3.500"]


def test_the_end_table_has_chrf_if_it_was_measured_and_fits_80_columns() -> None:
    shown = end_table(_events(chrf=True))
    assert _rows(shown)["zho_Hans-eng_Latn"][-1] == "100.0"
    assert "…" not in "".join(_lines(shown))
    assert any("10 updates" in line for line in _lines(shown))


def test_a_run_that_was_stopped_before_anything_was_measured_has_a_table_too() -> None:
    assert _rows(end_table([CONFIG]))["aze-en"] == ["5,946", "0.0", "25.0", "25.0", "-", "-"]
    assert best_validation([CONFIG]) is None
    assert _rows(end_table([])) == {}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (45.4, "45 s"), (60, "1 min"), (3570, "1 h 0 min"), (10_260, "2 h 51 min"), (273_600, "3 days 4 h")],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_cells() -> None:
    assert [percent(share) for share in (None, 0.0, 0.00001, 0.005, 0.5, 1.0)] == [
        "-",
        "0.0",
        "<0.01",
        "0.50",
        "50.0",
        "100.0",
    ]
    assert (number(None), number(1234.567), number(0.5, 1)) == ("-", "1,234.57", "0.5")


def test_where_losses_are_weighted_q_is_a_share_of_the_loss() -> None:
    weighing = _config(strategy="group-dro", config={"balance": {"apply": "reweight"}})
    for config, of in ((weighing, "loss"), (CONFIG, "samples")):
        for table in (start_table(config), end_table([config, *_events(chrf=False)[1:]])):
            (note,) = re.findall("q: ([^;.,]+)", " ".join(_lines(table)))
            assert note.endswith(of)


def test_the_best_model_may_be_the_average() -> None:
    *events, _ = _events(chrf=False)
    average = event("average", 15, steps=[10, 15], loss=dict.fromkeys(CONFIG.directions, 3.25))
    events += [average, event("done", 15, best_folder="checkpoints/average")]
    assert best_validation(events) == average
    assert _rows(end_table(events))["aze-en"][-1] == "3.250"
    assert any("average" in line and "15 updates" in line for line in _lines(end_table(events)))
    events[-1] = event("done", 15, best_folder="checkpoints/step-00000010")
    best = best_validation(events)
    assert best is not None
    assert best.step == 10
