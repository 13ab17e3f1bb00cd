"""Stop signals (Ctrl-C, SIGTERM), handled between updates."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class StopRequest:
    """`asked` is True once a stop signal has arrived."""

    def __init__(self) -> None:
        self.asked = False


STOPPING = "Stopping after this update; repeat to stop at once."


@contextmanager
def stop_requests(below_picture: Callable[[], bool] = lambda: False) -> Iterator[StopRequest]:
    """Record SIGINT (Ctrl-C) and SIGTERM so that the run can stop cleanly; a second signal ends the process at once.

    While the cursor is in the last line of a live picture, the message replaces that line: with a line of its own, the
    picture could not be erased any more.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread can handle signals
        return

    def note(number: int, frame: object) -> None:
        request.asked = True
        signal.signal(number, signal.SIG_DFL)
        line = f"\r\x1b[2K{STOPPING}" if below_picture() else f"\n{STOPPING}\n"
        with suppress(OSError):  # standard error may be closed
            os.write(2, line.encode())  # print() is not reentrant

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
