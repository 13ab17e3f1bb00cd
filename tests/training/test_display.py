import math
import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from evenglot.runs.log import Log
from evenglot.runs.standings import Standings
from evenglot.training.display import Display, change, short_exponent, worth_showing
from evenglot.training.signals import STOPPING, stop_requests
from tests.logs import event
from tests.screen import screen

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Clock:
    """A second for every look at it would be too fast; this one is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _names(count: int) -> list[str]:
    return [f"l{index:02}-en" for index in range(count)]


def _run(display: Display, directions: int, clock: Clock, done: bool = True) -> None:
    """A small run with everything in it."""
    names = _names(directions)
    log = Log(None, [display])
    share = dict.fromkeys(names, 1 / directions)
    facts = {
        name: {"pairs": 1000 * (place + 1), "p": share[name], "q": share[name]} for place, name in enumerate(names)
    }
    log.write(event("config", 0, directions=facts, updates=2000))
    log.write(event("interval", 0, interval=0, mixture=share, pairs=dict.fromkeys(names, 500), updates=1000))
    for step in range(100, 2001, 100):
        clock.now += 60
        display.update(
            step, 2000, loss=math.nan if step == 200 else 5.214, learning_rate=3e-4, tokens_per_second=3912.4
        )
        losses = {name: 3.0 + place / 10 for place, name in enumerate(names)}
        numbers = {"loss": 5.214, "learning_rate": 3e-4, "tokens_per_second": 3912.4, "total_updates": 2000}
        log.write(event("step", step, losses=losses, **numbers))
        if step % 1000 == 0:
            mixture = {name: share[name] * (1.5 if place == 0 else 1.0) for place, name in enumerate(names)}
            log.write(event("balance", step, mixture=mixture, losses=losses, changed=True))
            worst, macro = max(losses.values()), sum(losses.values()) / directions
            log.write(
                event("validation", step, loss=losses, pooled=3.412, macro=macro, worst=worst, score=3.412, best=True)
            )
            log.write(event("checkpoint", step, folder=f"runs/x/checkpoints/{step}", score=3.412))
    log.write(event("warning", 2000, message="the disk is [nearly] full"))
    if done:
        log.write(event("done", 2000, reason="limit", seconds=1200, best_step=2000, best_score=3.412))
    log.close()


def _shown(terminal: bool, directions: int, height: int = 24, done: bool = True) -> str:
    clock, output = Clock(), StringIO()
    console = Console(file=output, force_terminal=terminal, width=80, height=height, _environ={"TERM": "xterm"})
    _run(Display(console, clock), directions, clock, done)
    return output.getvalue()


def _text(shown: str) -> str:
    """Without control codes; where the cursor goes back to draw anew, a new line."""
    return CONTROL.sub("", shown.replace("\r", "\n"))


def test_plain_lines_where_there_is_no_terminal() -> None:
    lines = _shown(terminal=False, directions=3).splitlines()
    assert "update 300/2,000  15 %  loss 5.21  lr 3.0e-4  3,912 tok/s  17 min left" in lines
    assert "update 1,000  valid 3.412 (best)  macro 3.100  worst 3.200 l02-en" in lines
    assert "update 1,000  balance in %  l00-en 50.0  l01-en 33.3  l02-en 33.3" in lines
    assert "warning  the disk is [nearly] full" in lines
    assert lines[-2:] == [
        "done  2,000 updates in 20 min (limit)",
        "best  update 2,000  score 3.412  runs/x/checkpoints/2000",
    ]
    assert sum("tok/s" in line for line in lines) == 20
    assert len(lines) == 20 + 2 * 2 + 1 + 2


@pytest.mark.parametrize("directions", [1, 5, 30])
def test_plain_lines_have_no_control_codes(directions: int) -> None:
    shown = _shown(terminal=False, directions=directions)
    assert "\x1b" not in shown
    assert "\r" not in shown


def test_a_mixture_of_many_directions_is_told_by_what_changed_most() -> None:
    (line, _) = [line for line in _shown(terminal=False, directions=30).splitlines() if "balance" in line]
    assert line.startswith("update 1,000  balance in %  l00-en 5.0  ")
    assert line.endswith("  ... and 24 more")
    assert len(line) < 120


def test_mixtures_of_short_intervals_are_told_now_and_then() -> None:
    """Others are told whenever they change."""

    def told(updates: int) -> list[str]:
        output = StringIO()
        log = Log(None, [Display(Console(file=output))])
        for step in range(0, 3000, updates):
            log.write(event("interval", step, mixture={"aa-en": 1.0}, updates=updates))
            log.write(event("balance", step + updates, mixture={"aa-en": 1.0}, changed=True))
        return re.findall(r"update ([\d,]+)  balance", output.getvalue())

    assert told(50) == ["50", "1,050", "2,050"]
    assert len(told(100)) == 30


@pytest.mark.parametrize("directions", [1, 5, 12, 30])
def test_the_picture_fits_the_terminal(directions: int) -> None:
    text = _text(_shown(terminal=True, directions=directions, done=False))
    assert max(len(line) for line in text.splitlines()) <= 80
    last = text[text.rindex("update 2,000/2,000") :].splitlines()
    assert len(last) < 24
    assert "100 %" in last[0]
    assert re.findall(r"\d[\d.,e-]*", last[1]) == ["5.21", "3.0e-4", "3,912", "20", "0"]
    assert sum(line.startswith("l") and "-en" in line for line in last) == min(directions, 12)
    assert ("... and 18 more" in last) == (directions == 30)
    assert text.count("update 1,000  valid 3.412 (best)") == 1


def test_a_low_terminal_gets_a_shorter_table() -> None:
    text = _text(_shown(terminal=True, directions=30, height=12, done=False))
    last = text[text.rindex("update 2,000/2,000") :].splitlines()
    assert len(last) < 12
    assert "... and 25 more" in last


def test_the_table_says_where_a_direction_stands() -> None:
    text = _text(_shown(terminal=True, directions=3, done=False))
    row = next(line for line in reversed(text.splitlines()) if line.startswith("l02-en"))
    assert row.split() == ["l02-en", "33.3", "33.3", "0.2", "3.20", "3.200", "+0.000"]  # 500 of 3,000 pairs were drawn


def test_the_cursor_is_there_while_it_trains_and_the_picture_is_gone_when_done() -> None:
    shown = _shown(terminal=True, directions=3)
    hidden, visible = "\x1b[?25l", "\x1b[?25h"
    assert shown.index(visible) < shown.index("tok/s")
    assert shown.count(hidden) <= shown.count(visible)
    after = shown[shown.rindex("tok/s") :]
    assert "\x1b[2K" in after[: after.index("done  2,000 updates")]  # wiped
    assert "best  update 2,000" in after


def test_a_stop_leaves_nothing_of_the_picture_behind(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console(stderr=True, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm"})
    display, names = Display(console, Clock()), _names(3)
    share = dict.fromkeys(names, 1 / 3)
    with stop_requests(lambda: display.has_picture) as request:
        facts = {name: {"pairs": 1000, "p": share[name], "q": share[name]} for name in names}
        display.read(event("config", 0, directions=facts, updates=2000))
        display.update(100, 2000, loss=5.2)
        os.kill(os.getpid(), signal.SIGINT)
        assert request.asked
        stopping = capfd.readouterr().err
        assert screen(stopping)[-1] == STOPPING
    display.read(event("done", 101, reason="stopped"))
    lines = screen(stopping + capfd.readouterr().err)
    assert any(line.startswith("done  101 updates") for line in lines)
    assert not any(line.startswith(("loss", "l00-en", STOPPING)) for line in lines)


def test_a_stop_without_a_picture_has_a_line_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    with stop_requests():
        os.kill(os.getpid(), signal.SIGTERM)
    assert capfd.readouterr().err == f"\n{STOPPING}\n"


def test_a_picture_is_drawn_once_a_second_at_most() -> None:
    clock, output = Clock(), StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm"})
    display = Display(console, clock)
    for step in range(1, 1001):
        clock.now += 0.01
        display.update(step, 1000, loss=1.0)
        display.read(event("step", step, loss=1.0))
    assert 9 <= output.getvalue().count("loss 1.00") <= 11
    display.close()
    display.close()


def test_a_dumb_terminal_gets_plain_lines() -> None:
    output, clock = StringIO(), Clock()
    console = Console(file=output, force_terminal=True, width=80, _environ={"TERM": "dumb"})
    _run(Display(console, clock), 2, clock)
    assert "update 300/2,000  15 %" in output.getvalue()


class GoneAway(StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError

    def fileno(self) -> int:
        raise OSError


@pytest.mark.parametrize("terminal", [True, False])
def test_training_goes_on_when_the_terminal_has_gone_away(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", GoneAway())  # rich would otherwise redirect pytest's
    clock = Clock()
    console = Console(file=GoneAway(), force_terminal=terminal, width=80, height=24, _environ={"TERM": "xterm"})
    display = Display(console, clock)
    _run(display, 3, clock)
    display.note("still here")
    assert console.quiet  # nobody is spoken to any more


def test_training_goes_on_without_a_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `evenglot train >&-`: Python has none then."""
    monkeypatch.setattr("sys.stdout", None)
    clock, output = Clock(), StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm"})
    _run(Display(console, clock), 3, clock)
    assert "loss" in output.getvalue()


BROKEN_PIPE = """
import sys
from evenglot.training.display import Display
from tests.training.test_display import Clock, _run
clock = Clock()
_run(Display(clock=clock), 3, clock)
sys.exit(7)
"""


def test_training_goes_on_when_a_pipe_breaks() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)  # as `evenglot train ... 2>&1 | head` does
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", BROKEN_PIPE], cwd=root, stderr=write_end, check=False)
    os.close(write_end)
    assert done.returncode == 7


def test_a_resumed_run_counts_time_from_where_it_went_on_and_recalls_what_was_before() -> None:
    clock, output = Clock(), StringIO()
    display = Display(Console(file=output, width=80), clock)
    config = event("config", 0, directions={"aze-en": {"pairs": 10, "p": 1.0, "q": 1.0}})
    checkpoint = event("checkpoint", 900, folder="checkpoints/900")
    display.recall([config, checkpoint])
    assert output.getvalue() == ""
    log = Log(None, [display])
    log.write(event("resume", 900, folder="checkpoints/900"))
    clock.now += 60
    log.write(event("step", 1000, loss=None, total_updates=1200))
    log.write(event("done", 1200, best_step=900, best_score=None))
    assert output.getvalue().splitlines() == [
        "resumed after update 900",
        "update 1,000/1,200  83 %  loss -  2 min left",
        "done  1,200 updates",
        "saved  update 900  checkpoints/900",
    ]


def test_of_too_many_directions_the_unlike_and_the_worst_are_shown() -> None:
    standings = Standings()
    for place, name in enumerate(_names(20)):
        direction = standings[name]
        direction.pairs, direction.p, direction.q, direction.train_loss = 1000 - place, 0.05, 0.05, 1.0
    standings["l07-en"].q, standings["l11-en"].q = 0.2, 0.01
    standings["l03-en"].train_loss, standings["l19-en"].valid_loss = 9.0, 8.0
    assert worth_showing(standings, 4) == ["l03-en", "l07-en", "l11-en", "l19-en"]
    assert len(worth_showing(standings, 12)) == 12
    standings["l07-en"].q = 0.0
    assert len(worth_showing(standings, 12)) == 12


def test_small_words() -> None:
    assert (change(3.5, 3.25), change(3.0, 3.5), change(None, 3.5)) == ("-0.250", "+0.500", "")
    assert (short_exponent(3e-4), short_exponent(1.0), short_exponent(0.0)) == ("3.0e-4", "1.0e0", "0.0e0")
