"""`evenglot serve` under load and under attack, with figures: python -m torture.load [--requests 10000] [--clients 100]

The server is a process of its own; all traffic stays on 127.0.0.1. Every answer is compared with what the model gives
without a server, texts and scores, so that an answer to another request is noticed. Clients leave at random while
they are waiting, connect again and repeat the request.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import resource
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import evenglot
from evenglot.inference.engines import SearchOptions
from evenglot.paper.recipes import demo_corpus
from torture.page import write_figures

EXAMPLE = Path(__file__).parent.parent / "tests" / "formats" / "examples.tar.xz"
TOLERANCE = 1e-4  # of scores: batches of other sizes round differently
LEAVING = 0.05  # share of the requests whose client leaves before the answer
PER_CONNECTION = 20  # requests, after which a client connects anew
PATIENCE = 600  # seconds for an answer: nothing is asserted about durations
Scored = tuple[str, float]
START = (
    "import json, sys; from pathlib import Path; from evenglot.serve import Limits, serve;"
    "serve(Path(sys.argv[1]), port=0, limits=Limits(**json.loads(sys.argv[2])))"
)


@dataclass
class Outcome:
    """What became of the requests."""

    answered: int = 0
    wrong: int = 0  # another text or score, or that of another number of sentences
    lost: int = 0  # no answer, though tried again
    turned_away: int = 0  # 503 or 504; tried again
    left: int = 0  # clients that did not wait; tried again
    memory: list[int] = field(default_factory=list)  # of the server, in KiB, after each tenth of the requests


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    @property
    def memory(self) -> int:
        """Resident memory in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])


def example_run(folder: Path) -> Path:
    """The newest of the stored runs."""
    with tarfile.open(EXAMPLE) as archive:
        archive.extractall(folder, filter="data")
    return max(path for path in folder.iterdir() if path.is_dir()) / "run"


@contextmanager
def running(run: Path, log: Path, **limits: float) -> Iterator[Server]:
    """A server; what it says goes to a file."""
    command = [sys.executable, "-c", START, str(run), json.dumps(limits)]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        yield Server(process, int(process.stdout.readline().split("127.0.0.1:")[1].split()[0]))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def answers_of(run: Path, most: int) -> dict[str, Scored]:
    """Sentences of the demo corpus, and how the model translates them."""
    text = gzip.decompress((demo_corpus() / "train.por-en.por.gz").read_bytes()).decode("utf-8")
    lines = list(dict.fromkeys(line for line in text.split("\n") if 0 < len(line) < 60))[:most]
    model = evenglot.load(run, device="cpu")
    options = SearchOptions(beam=1, n_best=1)
    found = model.stream(lines, model.direction("en", "por"), options)
    return {line: (best.text, best.score) for line, (best, *_) in zip(lines, found, strict=True)}


# ------------------------------------------------------------------------------------------------------------ clients


class Client:
    """One connection at a time, kept for some requests."""

    def __init__(self, port: int) -> None:
        self._port, self._used = port, 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes, leave: bool = False) -> tuple[int, bytes]:
        """Status and body of the answer. `leave`: do not wait for it (status 0)."""
        if self._streams is None or self._used >= PER_CONNECTION:
            await self.close()
            self._streams, self._used = await asyncio.open_connection("127.0.0.1", self._port), 0
        self._used += 1
        reader, writer = self._streams
        head = f"POST /api/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        if leave:
            await self.close()
            return 0, b""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = head.partition("content-length:")[2].split("\r\n")[0]
        answer = await (reader.readexactly(int(length)) if length else reader.read())  # until the server closes
        if "connection: close" in head:
            await self.close()
        return int(head.split()[1]), answer

    async def close(self) -> None:
        """Leave at once."""
        if self._streams is not None:
            await abort(self._streams[1])
        self._streams = None


async def abort(writer: asyncio.StreamWriter) -> None:
    """End a connection without a word."""
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


def question(sentences: list[str]) -> bytes:
    """The body of a request."""
    content = {"sentences": sentences, "to": "en", "from": "por", "beam": 1}
    return json.dumps(content).encode()


def is_right(answer: bytes, wanted: list[Scored]) -> bool:
    """Whether these are the translations of these sentences."""
    found = [(best["text"], best["score"]) for best, *_ in json.loads(answer)["translations"]]
    return len(found) == len(wanted) and all(
        text == meant and abs(score - expected) <= TOLERANCE
        for (text, score), (meant, expected) in zip(found, wanted, strict=True)
    )


async def ask(client: Client, sentences: list[str], known: dict[str, Scored], outcome: Outcome, leave: bool) -> None:
    """Ask until there is an answer, at most a hundred times."""
    for attempt in range(100):
        try:
            status, answer = await asyncio.wait_for(client.post(question(sentences), leave and not attempt), PATIENCE)
        except (OSError, EOFError, TimeoutError):
            await client.close()
            continue
        if status == 200:
            outcome.answered += 1
            outcome.wrong += not is_right(answer, [known[line] for line in sentences])
            return
        outcome.left += status == 0
        outcome.turned_away += status in (503, 504)
        if status not in (0, 503, 504):
            break
        await asyncio.sleep(status == 503)  # seconds, as the header Retry-After asks
    outcome.lost += 1


async def crowd(server: Server, known: dict[str, Scored], requests: int, clients: int, seed: int) -> Outcome:
    """Many clients at a time, until there were so many requests."""
    outcome, numbers, lines = Outcome(), iter(range(requests)), sorted(known)

    async def work() -> None:
        client = Client(server.port)
        for number in numbers:
            chance = random.Random(f"{seed} {number}")
            sentences = chance.sample(lines, chance.randint(1, 4))
            await ask(client, sentences, known, outcome, chance.random() < LEAVING)
            if number % max(1, requests // 10) == 0:
                outcome.memory.append(server.memory)
        await client.close()

    await asyncio.gather(*(work() for _ in range(clients)))
    return outcome


async def health(port: int) -> int:
    """How many requests wait."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
    content = await reader.read()
    await abort(writer)
    return int(json.loads(content.partition(b"\r\n\r\n")[2])["requests"])


async def drain(server: Server, known: dict[str, Scored], requests: int, seed: int) -> tuple[Outcome, int]:
    """SIGTERM while requests are in progress: what became of them, and how many there were at that time."""
    outcome, lines = Outcome(), sorted(known)

    async def once(number: int) -> None:
        client, sentences = Client(server.port), random.Random(f"{seed} drain {number}").choices(lines, k=40)
        try:
            status, answer = await asyncio.wait_for(client.post(question(sentences)), PATIENCE)
        except (OSError, EOFError, TimeoutError):
            status, answer = 0, b""
        await client.close()
        outcome.answered += status == 200
        outcome.lost += status != 200
        outcome.wrong += status == 200 and not is_right(answer, [known[line] for line in sentences])

    tasks = [asyncio.create_task(once(number)) for number in range(requests)]
    waiting = 0
    while waiting < requests and not any(task.done() for task in tasks):
        waiting = await health(server.port)
    server.process.send_signal(signal.SIGTERM)
    await asyncio.gather(*tasks)
    await asyncio.to_thread(server.process.wait, PATIENCE)
    return outcome, waiting


# ----------------------------------------------------------------------------------------------------------- attackers

SLOW_HEADERS = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
SLOW_BODY = b"POST /api/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"


async def dribble(port: int, first: bytes) -> None:
    """Send a few bytes, then one now and then, until the server has had enough."""
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        notice_the_end(writer)
        over = asyncio.create_task(reader.read())
        writer.write(first)
        while not over.done():
            await asyncio.wait([over], timeout=0.25)
            if first and not over.done():
                writer.write(b"x")
        await abort(writer)
        with suppress(OSError):
            await over


def notice_the_end(writer: asyncio.StreamWriter) -> None:
    """Probe the connection: if the server's queue was full, its system has forgotten it, and says so only if asked."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):  # macOS has another name for the first
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), 5)


async def besieged(
    server: Server, known: dict[str, Scored], first: bytes, connections: int, requests: int, seed: int
) -> tuple[Outcome, int]:
    """Ordinary requests while others hold connections, and how many of these the server has ended after that."""
    attackers = [asyncio.create_task(dribble(server.port, first)) for _ in range(connections)]
    outcome = await crowd(server, known, requests, 10, seed)
    _, open_still = await asyncio.wait(attackers, timeout=PATIENCE)
    for task in open_still:
        task.cancel()
    return outcome, connections - len(open_still)


# ------------------------------------------------------------------------------------------------------------- figures


def allow_files(number: int) -> None:
    """Let this process open so many connections, if the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))


def figures(folder: Path, requests: int, clients: int, connections: int, seed: int) -> list[tuple[str, ...]]:
    """Load, attacks and a stop; one row for each."""
    run = example_run(folder)
    known = answers_of(run, 400)
    distinct = len({(text, round(score, 3)) for text, score in known.values()})
    print(f"{distinct} different answers to {len(known)} sentences", flush=True)
    log = folder / "log.txt"
    rows: list[tuple[str, ...]] = []

    def row(what: str, outcome: Outcome, *notes: str) -> None:
        memory = [f"{outcome.memory[0] // 1024} -> {outcome.memory[-1] // 1024} MiB"] if outcome.memory else []
        tried = f"{outcome.answered + outcome.lost:,}"
        rows.append((what, tried, str(outcome.lost), str(outcome.wrong), "; ".join([*notes, *memory])))
        print(rows[-1], flush=True)

    with running(run, log) as server:
        outcome = asyncio.run(crowd(server, known, requests, clients, seed))
        row(f"{clients} clients", outcome, f"{outcome.left:,} left and came again; {outcome.turned_away} turned away")
        outcome, waiting = asyncio.run(drain(server, known, 20, seed))
        row("SIGTERM", outcome, f"{waiting} in progress; exit code {server.process.returncode}")
    with running(run, log, header_seconds=3, seconds=10) as server:
        for what, first in {"slow headers": SLOW_HEADERS, "slow bodies": SLOW_BODY, "silent connections": b""}.items():
            outcome, ended = asyncio.run(besieged(server, known, first, connections, requests // 10, seed))
            notes = f"{ended:,} ended by the server; {outcome.turned_away:,} answers of 503, tried again after a second"
            row(f"{connections:,} {what}", outcome, notes)
    rows.append(("bytes of log", f"{log.stat().st_size:,}", "", "", ""))
    return rows


def main() -> None:
    """Attack, and write the figures."""
    options = argparse.ArgumentParser(prog="torture.load")
    options.add_argument("--requests", type=int, default=10_000)
    options.add_argument("--clients", type=int, default=100)
    options.add_argument("--connections", type=int, default=1_500, help="of attackers, at a time")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    allow_files(given.connections + given.clients + 100)
    with tempfile.TemporaryDirectory() as folder:
        rows = figures(Path(folder), given.requests, given.clients, given.connections, given.seed)
    head = ["| while | requests | lost | mixed up | |", "|---|--:|--:|--:|---|"]
    write_figures("load", [*head, *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    main()
