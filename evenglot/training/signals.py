"""Ctrl-C and friends, heard at a moment that suits us."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class StopRequest:
    """Has somebody asked us to stop?"""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """SIGINT (Ctrl-C) and SIGTERM are noted, for us to end in good order; the second one ends the process at once."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread can listen
        return

    def note(number: int, frame: object) -> None:
        request.asked = True
        signal.signal(number, signal.SIG_DFL)
        with suppress(OSError):  # nobody may be listening
            os.write(2, b"\nStopping after this update; once more to stop at once.\n")  # a print may be under way

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
