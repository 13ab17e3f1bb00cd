"""The server: socket, worker, guarded routes and graceful shutdown."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from evenglot import __version__
from evenglot.inference.translate import Device, EngineName, Translator, translator_of
from evenglot.runs.model import load_model
from evenglot.runs.run import Run
from evenglot.serve.api import PAGE, Api, as_json, sources, targets
from evenglot.serve.connections import AcceptErrors, accepted_at_once, connections
from evenglot.serve.guard import Guard, allowed_host
from evenglot.serve.messages import Limits, Model
from evenglot.serve.metrics import Counted
from evenglot.serve.worker import Worker
from evenglot.web import is_loopback


class Server(uvicorn.Server):
    """Shuts down gracefully on SIGINT and SIGTERM; uvicorn's own class re-raises the signal afterwards."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen; errors of accepting connections are told once."""
        asyncio.get_running_loop().set_exception_handler(AcceptErrors())
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On the first signal finish running requests; on the second exit immediately."""
        self.force_exit = self.should_exit
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ValueError if the address is not available."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port: expected 0 to {2**16 - 1}, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} of {host} is in use; choose another with --port") from error
        raise ValueError(f"cannot listen on port {port} of {host}: {error.strerror}") from error


@contextmanager
def prepared(
    translator: Translator, model: Model, listening: socket.socket, limits: Limits, names: Sequence[str] = ()
) -> Iterator[Server]:
    """A server with its worker; `server.run(sockets=[listening])` runs it."""
    worker = Worker(translator, limits)
    api = Api(translator, worker, model, limits)
    app = Starlette(
        routes=api.routes(),
        exception_handlers={HTTPException: as_json, Exception: as_json},
    )
    app.router.redirect_slashes = False
    counted = Counted(app, api.metrics, frozenset(route.path for route in api.routes()))
    config = uvicorn.Config(
        Guard(counted, allowed_host(is_loopback(listening.getsockname()[0]), names), PAGE.read_text(encoding="utf-8")),
        http=connections(limits),
        backlog=accepted_at_once(),
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=round(2 * limits.seconds) + 5,  # longer than any request lasts
    )
    server = Server(config)
    api.is_stopping = lambda: server.should_exit
    api.connections = lambda: len(server.server_state.connections)
    try:
        yield server
    finally:
        worker.close()


def about(run: Run, strategy: str, step: int, translator: Translator) -> Model:
    """Information about the served model: run, strategy and number of updates (`step`)."""
    return Model(
        run=run.folder.resolve().name,
        directions=[direction.name for direction in translator.directions],
        languages={"from": sources(translator), "to": targets(translator)},
        strategy=strategy,
        step=step,
        version=__version__,
    )


def _say(text: str) -> None:
    print(text, flush=True)


def serve(
    run: Path,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    names: Sequence[str] = (),
    which: str = "best",
    device: Device = "auto",
    engine: EngineName = "torch",
    limits: Limits | None = None,
    tell: Callable[[str], object] = _say,
) -> None:
    """Serve the model of a run until SIGINT or SIGTERM; then finish running requests and return.

    `port` 0: any free port. `names`: host names that browsers may use, in addition to those of loopback.
    """
    with listen(host, port) as listening:  # first, to report a port in use before loading the model
        home = Run(run)
        config, chosen = home.config(), home.choose(which)
        translator = translator_of(home, config.data, chosen, load_model(chosen, config.model.init), device, engine)
        model = about(home, config.balance.strategy, chosen.step, translator)
        address, taken = listening.getsockname()[:2]
        with prepared(translator, model, listening, limits or Limits(), names) as server:
            tell(f"Serving {run} at http://{f'[{address}]' if ':' in address else address}:{taken} (Ctrl-C stops it)")
            if not is_loopback(address):
                tell("Warning: no authentication; everyone who can reach this address can use the server.")
            server.run(sockets=[listening])
    tell("Stopped.")
