"""The report while training runs: the same page from loopback, which asks for new data every few seconds."""

from __future__ import annotations

import errno
import hashlib
import json
import socketserver
import sys
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from evenglot.comparison.compare import comparison_of
from evenglot.reporting.page import LARGEST, embedded, fitted, page
from evenglot.reporting.page_data import Data, page_data, short_names
from evenglot.runs.run import Run
from evenglot.web import host_name, is_loopback, served_headers

ADDRESS = "127.0.0.1"
SCORES = ("scores*.json", "statistics*.npz")
HEADERS = served_headers(page().policy)


class Watched:
    """The runs; their data are put together anew only when a file has changed."""

    def __init__(self, runs: Sequence[Run], names: Sequence[str] | None = None) -> None:
        self.runs, self.names = list(runs), list(short_names(runs) if names is None else names)
        self._lock = threading.Lock()  # requests come in threads of their own
        self._seen: list[Any] | None = None
        self._data: Data = {}
        self._compared: list[Any] | None = None
        self._comparison: Data | None = None

    def data(self) -> Data:
        """What the page shows now."""
        with self._lock:
            seen = [_stamp(run, "log.jsonl", "config.yaml", *SCORES, "hypotheses/*") for run in self.runs]
            if seen != self._seen:
                data = page_data(self.runs, names=self.names, live=True, comparison=self._compare())
                self._data, self._seen = fitted(data, LARGEST), seen
            return self._data

    def _compare(self) -> Data | None:
        """The comparison, if all runs are scored; it takes seconds, so a log that only grows does not ask for one."""
        seen = [_stamp(run, *SCORES) for run in self.runs]
        if seen != self._compared:
            try:
                named = list(zip(self.names, self.runs, strict=True))
                self._comparison = comparison_of(named, reference=None, warn=lambda text: None)
            except ValueError:  # scored on different sentences: each run can still be shown
                self._comparison = None
            self._compared = seen
        return self._comparison


def _stamp(run: Run, *patterns: str) -> list[Any]:
    """Changes with every file of the run that is so called."""
    files = [file for pattern in patterns for file in sorted(run.folder.glob(pattern))]
    found = []
    for file in files:
        try:
            state = file.stat()
        except OSError:
            continue
        found.append((file.name, state.st_mtime_ns, state.st_size))
    return found


class Server(ThreadingHTTPServer):
    """Listens on loopback only."""

    daemon_threads = True

    def __init__(self, watched: Watched, port: int) -> None:
        self.watched = watched
        super().__init__((ADDRESS, port), Handler)

    def server_bind(self) -> None:
        """Without asking name servers what this machine is called, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    @property
    def url(self) -> str:
        """What to type into a browser."""
        return f"http://{ADDRESS}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One line; but a browser that closes a connection early is nobody's fault."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            print(f"report: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    """Two addresses, both for reading: the page and its data."""

    server: Server
    protocol_version = "HTTP/1.0"  # a connection for each question: none outlives the server
    timeout = 30  # seconds that a silent connection is kept

    def do_GET(self) -> None:
        """Answer, if whoever asks calls us by a name of loopback (else: DNS rebinding) and is no foreign page."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if not is_loopback(host_name(host)) or (origin is not None and origin.lower() != f"http://{host.lower()}"):
            self._say(HTTPStatus.FORBIDDEN, f"this server goes by {self.server.url} only")
            return
        answer = {"/": self._page, "/data.json": self._data}.get(urlsplit(self.path).path)
        if answer is None:
            self._say(HTTPStatus.NOT_FOUND, "there is nothing here; the page is at /")
            return
        try:
            answer()
        except (OSError, ValueError) as error:  # a file that changes while it is read: the page asks again
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _refuse(self) -> None:
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is possible here")

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
        """Nobody needs to know more."""
        return "evenglot"

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal belongs to the person; a page asks every few seconds."""


def listen(runs: Sequence[Run], port: int, names: Sequence[str] | None = None) -> Server:
    """A server that has its port, 0 for any that is free; ValueError if it cannot be had."""
    if not runs:
        raise ValueError("report: name at least one run to watch")
    if not 0 <= port < 2**16:
        raise ValueError(f"port: expected 0 to {2**16 - 1}, got {port}")
    try:
        return Server(Watched(runs, names), port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} of {ADDRESS} is taken; choose another with --port") from error
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
    """Serve the page of these runs until Ctrl-C. `open_` is called with the address once it can be asked."""
    with listen(runs, port, names) as server:
        tell(f"The report is at {server.url} and refreshes itself (Ctrl-C stops it)")
        if open_ is not None:
            open_(server.url)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            tell("Stopped.")
