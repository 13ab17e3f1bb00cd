"""Connections to the server: a deadline for every request, and fewer connections than the process may have open files.

Without these, clients that connect and say nothing, or send a byte now and then, would keep all others out.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import resource
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from evenglot.serve.messages import Limits

log = logging.getLogger(__name__)
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    b'{"error": "too many connections; try again later"}'
)
ORDER = itertools.count(1)
SPARE = 32  # open files for the rest of the process: models, logs, the event loop


def accepted_at_once() -> int:
    """Connections that are accepted before any is looked at; the queue of those that wait has the same length."""
    return max(8, min(128, _open_files_allowed() // 8))


def most_connections(limits: Limits) -> int:
    """The most connections at a time: as configured, or as many as the limit of open files leaves."""
    open_now = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 2 * SPARE
    return max(1, min(limits.connections, _open_files_allowed() - open_now - SPARE - 2 * accepted_at_once()))


def _open_files_allowed() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


class Connection(H11Protocol):
    """A connection that ends if a request, from its first header to the last byte of the response, takes too long.

    If there are too many, the one that has been waiting longest for its request makes room for a new one.
    """

    limits: Limits
    most: int
    _timer: asyncio.TimerHandle | None = None
    _since = 0  # when it began to wait, in an order that clocks are too coarse for
    _is_busy = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, if there is room for it."""
        if len(self.connections) >= self.most and not self._make_room():
            self.transport = transport
            transport.write(FULL)
            transport.close()
            return
        super().connection_made(transport)
        self._expect(self.limits.header_seconds)

    def _make_room(self) -> bool:
        everyone: set[Any] = self.connections
        waiting = [each for each in everyone if not each._is_busy]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: each._since)
        oldest.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        """Process what arrived; the time starts anew with each request, not with each byte."""
        if self.flow is None or self.transport.is_closing():
            return
        super().data_received(data)
        if not self._is_busy and self.cycle is not None and not self.cycle.response_complete:
            self._is_busy = True
            self._expect(3 * self.limits.seconds)  # to receive, translate and send it

    def on_response_complete(self) -> None:
        """Wait for the next request on this connection."""
        self._is_busy = False
        self._expect(self.limits.header_seconds)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        if self._timer is not None:
            self._timer.cancel()
        if self.flow is not None:
            super().connection_lost(exc)

    def _expect(self, seconds: float) -> None:
        """The next thing to happen must happen within so many seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)
        self._since = next(ORDER)


def connections(limits: Limits) -> type[Connection]:
    """The class of connections with these limits."""
    return type("LimitedConnection", (Connection,), {"limits": limits, "most": most_connections(limits)})


class AcceptErrors:
    """Says once that connections cannot be accepted; asyncio would repeat it without end."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error of the event loop."""
        if "accept" not in str(context.get("message")):
            loop.default_exception_handler(context)
        elif not self._said:
            self._said = True
            log.error("cannot accept connections: %s; trying again", context.get("exception"))
