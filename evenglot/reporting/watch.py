"""Live report: serves the page on the loopback interface; it fetches new data every few seconds."""

from __future__ import annotations

import errno
import hashlib
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from evenglot.comparison.compare import comparison_of
from evenglot.reporting.page import LARGEST, embedded, fitted, page
from evenglot.reporting.page_data import Data, page_data, short_names
from evenglot.reporting.samples import Stamp, stamp
from evenglot.runs.run import Run
from evenglot.web import host_name, is_loopback, served_headers

ADDRESS = "127.0.0.1"
MOST = 64  # connections at a time, each with a thread
SECONDS = 30.0  # for a whole request
SCORES = ("scores*.json", "statistics*.npz")
HEADERS = served_headers(page().policy)


class Watched:
    """The runs; their data are recomputed only when a file has changed."""

    def __init__(self, runs: Sequence[Run], names: Sequence[str] | None = None) -> None:
        self.runs, self.names = list(runs), list(short_names(runs) if names is None else names)
        self._lock = threading.Lock()  # each request has its own thread
        self._seen: list[Any] | None = None
        self._data: Data = {}
        self._compared: list[Any] | None = None
        self._comparison: Data | None = None

    def data(self) -> Data:
        """The current data of the page."""
        with self._lock:
            seen = [_stamp(run, "log.jsonl", "config.yaml", *SCORES, "hypotheses/*/*") for run in self.runs]
            if seen != self._seen:
                data = page_data(self.runs, names=self.names, live=True, comparison=self._compare())
                self._data, self._seen = fitted(data, LARGEST), seen
            return self._data

    def _compare(self) -> Data | None:
        """The comparison if all runs are scored; recomputed only if scores change, as it takes seconds."""
        seen = [_stamp(run, *SCORES) for run in self.runs]
        if seen != self._compared:
            try:
                named = list(zip(self.names, self.runs, strict=True))
                self._comparison = comparison_of(named, reference=None, warn=lambda text: None)
            except ValueError:  # not comparable: single runs can still be shown
                self._comparison = None
            self._compared = seen
        return self._comparison


def _stamp(run: Run, *patterns: str) -> list[Stamp]:
    return stamp(file for pattern in patterns for file in sorted(run.folder.glob(pattern)))


class Server(ThreadingHTTPServer):
    """HTTP server on the loopback interface only."""

    daemon_threads = True

    def __init__(self, watched: Watched, port: int) -> None:
        self.watched = watched
        self._began: dict[socket.socket, float] = {}  # connections, and when they were accepted
        super().__init__((ADDRESS, port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless there are too many."""
        if len(self._began) >= MOST:
            self.shutdown_request(request)
            return
        self._began[request] = monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that is over."""
        self._began.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that take too long, also those that send a byte now and then."""
        for request, began in list(self._began.items()):
            if monotonic() - began > SECONDS:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        """Bind without the reverse name lookup of `HTTPServer`, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{ADDRESS}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print one line; connections closed early by the browser are ignored."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            print(f"report: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    """Two read-only routes: the page and its data."""

    server: Server
    protocol_version = "HTTP/1.0"  # one connection per request, so that none outlives the server
    timeout = 30  # seconds before an idle connection is closed

    def do_GET(self) -> None:
        """Serve requests whose Host is a loopback name (against DNS rebinding) and whose Origin is this server."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if not is_loopback(host_name(host)) or (origin is not None and origin.lower() != f"http://{host.lower()}"):
            self._say(HTTPStatus.FORBIDDEN, f"forbidden host or origin; use {self.server.url}")
            return
        answer = {"/": self._page, "/data.json": self._data}.get(urlsplit(self.path).path)
        if answer is None:
            self._say(HTTPStatus.NOT_FOUND, "not found; the page is at /")
            return
        try:
            answer()
        except (OSError, ValueError) as error:  # a file changed while being read: the page retries
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _refuse(self) -> None:
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is allowed")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815

    def _page(self) -> None:
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page().render(self.server.watched.data()).encode())

    def _data(self) -> None:
        content = embedded(self.server.watched.data()).encode()
        tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
        if self.headers.get("If-None-Match") == tag:
            self._send(HTTPStatus.NOT_MODIFIED, "application/json", b"", {"ETag": tag})
        else:
            self._send(HTTPStatus.OK, "application/json", content, {"ETag": tag})

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "application/json", json.dumps({"error": text}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        size = {} if status == HTTPStatus.NOT_MODIFIED else {"Content-Length": str(len(content))}
        allow = {"Allow": "GET"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
        for name, value in {"Content-Type": kind, **size, **allow, **HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def version_string(self) -> str:
        """Server header without version numbers."""
        return "evenglot"

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests: the page polls every few seconds."""


def listen(runs: Sequence[Run], port: int, names: Sequence[str] | None = None) -> Server:
    """A server bound to a port (0: any free port). Raises ValueError if the port is not available."""
    if not runs:
        raise ValueError("report: expected at least one run to watch")
    if not 0 <= port < 2**16:
        raise ValueError(f"port: expected 0 to {2**16 - 1}, got {port}")
    try:
        return Server(Watched(runs, names), port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} of {ADDRESS} is in use; choose another with --port") from error
        raise ValueError(f"cannot listen on port {port} of {ADDRESS}: {error.strerror}") from error


def _say(text: str) -> None:
    print(text, flush=True)


def watch(
    runs: Sequence[Run],
    *,
    port: int,
    names: Sequence[str] | None = None,
    open_: Callable[[str], object] | None = None,
    tell: Callable[[str], object] = _say,
) -> None:
    """Serve the live report of these runs until Ctrl-C. `open_` is called with the address once it is available."""
    with listen(runs, port, names) as server:
        tell(f"Live report at {server.url} (Ctrl-C stops it)")
        if open_ is not None:
            open_(server.url)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            tell("Stopped.")
