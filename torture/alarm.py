"""What every attack on readers needs: an end to those that hang, and silence."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

SECONDS = 60  # after which a reader counts as hanging: the slowest needs less than one


class Hang(BaseException):
    """A reader does not come back."""


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Raise Hang after so many seconds."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what readers print to themselves."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield
