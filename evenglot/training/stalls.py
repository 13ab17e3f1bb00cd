"""A process that stops answering is named.

Collective operations fail after `train.timeout` without saying which process they waited for. So every process that
sees one fail signs in a list that all can reach (the store by which they found each other). Who has not signed is
stopped, or its machine is gone or overloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import torch.distributed as dist

from evenglot.wording import listed

SIGN_IN = 20.0  # seconds for all others to see the failure, too: they wait in the same operation, or in the next one
NOTICE = 2.0  # seconds in which a process learns that the failure it sees follows from a stall elsewhere
LIST, STALLED = "evenglot/signed-in", "evenglot/stalled"
FAILURES = ("gloo", "nccl", "timed out", "connection closed", "connection reset")  # of collective operations


class StalledError(ValueError):
    """Some processes (`ranks`; none: all answer by now) did not take part in a collective operation in time."""

    def __init__(self, ranks: list[int], minutes: float) -> None:
        super().__init__(ranks, minutes)
        self.ranks, self.minutes = ranks, minutes

    def __str__(self) -> str:
        advice = "continue with --resume; if it was only slow, increase train.timeout"
        if not self.ranks:
            return f"the processes lost each other for {self.minutes:g} minutes, but all of them answer now; {advice}"
        who = f"{'process' if len(self.ranks) == 1 else 'processes'} {listed(list(map(str, self.ranks)))}"
        return f"{who} did not answer for {self.minutes:g} minutes: stopped, or its machine is lost or busy; {advice}"


@contextmanager
def stalls_named(rank: int, world: int, minutes: float) -> Iterator[None]:
    """Raise StalledError instead of the failure of a collective operation, if that failed because of a stall."""
    try:
        yield
    except RuntimeError as error:
        if world == 1 or not is_collective(error):
            raise
        store: Any = dist.distributed_c10d._get_default_store()
        try:
            missing = _missing(store, rank, world, "timed out" in str(error).lower())
        except RuntimeError:  # the store is gone with the process that held it
            raise error from None
        if missing is None:
            raise
        raise StalledError(missing, minutes) from error


def is_collective(error: RuntimeError) -> bool:
    """Is this the failure of a collective operation? There is only its text to tell."""
    text = str(error).lower()
    return any(word in text for word in FAILURES)


def _missing(store: Any, rank: int, world: int, is_first_hand: bool) -> list[int] | None:
    """The ranks that do not sign in time; None if nobody noticed a stall, so that this is another failure."""
    store.set(f"{LIST}/{rank}", "1")
    if is_first_hand:
        store.set(STALLED, "1")
    elif not _within(NOTICE, lambda: store.check([STALLED])):
        return None
    others = [other for other in range(world) if other != rank]
    _within(SIGN_IN, lambda: store.check([f"{LIST}/{other}" for other in others]))
    return [other for other in others if not store.check([f"{LIST}/{other}"])]


def _within(seconds: float, condition: Any) -> bool:
    until = monotonic() + seconds
    while not condition():
        if monotonic() > until:
            return False
        sleep(0.05)
    return True
