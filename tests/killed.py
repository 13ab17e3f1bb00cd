"""Processes that end themselves at a chosen moment: the same one every time, however busy the machine is.

Whoever watches from outside may look too late.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

RENAMES = ("os.rename",)
DELETIONS = ("os.rename", "os.remove", "os.rmdir")
ALL = ("open", "os.mkdir", *DELETIONS)


def kill_itself(
    when: Callable[[], bool], operations: tuple[str, ...] = ALL, number: signal.Signals = signal.SIGKILL
) -> None:
    """From now on, ask before each of these file operations whether to send this process the signal, once."""
    asking = False

    def look(event: str, _: object) -> None:
        nonlocal asking
        if event in operations and not asking:
            asking = True  # the question itself may open files
            if when():
                signal.raise_signal(number)
            else:
                asking = False

    sys.addaudithook(look)


def kill_itself_after(count: int, operations: tuple[str, ...], number: signal.Signals = signal.SIGKILL) -> None:
    """Let so many of these operations happen."""
    left = iter(range(count))
    kill_itself(lambda: next(left, None) is None, operations, number)
