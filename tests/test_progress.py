"""Bars of a terminal go with their task; elsewhere there are none."""

from io import StringIO

from rich.console import Console

from evenglot.progress import Bars

UP_AND_ERASE = "\x1b[1A\x1b[2K"


def shown(terminal):
    """What two tasks print."""
    output = StringIO()
    console = Console(file=output, force_terminal=terminal, width=80, _environ={"TERM": "xterm"})
    bars = Bars(console)
    for label in ("reading", "encoding"):
        with bars.task(label, 10) as advance:
            advance(10)
    return output.getvalue()


def test_a_bar_is_gone_with_its_task():
    text = shown(terminal=True)
    assert "reading" in text
    assert "encoding" in text
    assert text.count("\n") == text.count(UP_AND_ERASE) == 2
    assert text.endswith(UP_AND_ERASE)


def test_without_a_terminal_short_tasks_print_nothing():
    assert shown(terminal=False) == ""
