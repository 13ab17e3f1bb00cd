"""A trained model as a page and a JSON API (docs/serve.md).

    request -> guard (who asks?) -> api (is it well formed, within the limits?) -> worker (one thread owns the model)

Requests that wait are translated together. Nothing in a request is ever used as a path or as code.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import models_json_schema

from evenglot import __version__
from evenglot.directions import Direction
from evenglot.evaluation.engines import SearchOptions
from evenglot.evaluation.translate import EngineName, Translation, Translator, choose, load
from evenglot.training.run import Run
from evenglot.web import STRICT_HEADERS
from evenglot.wording import did_you_mean

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise ValueError('starlette and uvicorn are not installed: pip install "evenglot[serve]"') from error

PAGE = Path(__file__).with_name("serve.html")
READ_ON = 4  # so many times the largest body is read before the answer, or the client would miss it while it sends
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how many may ask at once."""

    body: int = 256 * 1024  # bytes of a request
    sentences: int = 200  # of a request
    characters: int = 5000  # of a sentence
    beam: int = 20
    requests: int = 512  # that are read or wait at the same time; further ones are sent away
    seconds: float = 60.0  # for a request to arrive, and as many for its answer
    batch_sentences: int = 64  # translated together; a batch once begun is not interrupted, ...
    batch_characters: int = 8192  # ... so it must not last long


# What is asked and answered; the OpenAPI description is made from these.


class Question(BaseModel):
    """Sentences to translate: as a list (`sentences`), or one in each line of a `text`; exactly one of the two."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "oneOf": [
                {"properties": {"sentences": {"type": "array"}}, "required": ["sentences"]},
                {"properties": {"text": {"type": "string"}}, "required": ["text"]},
            ]
        },
    )

    sentences: list[str] | None = None
    text: str | None = None
    to: str | None = Field(None, description="Target language; can be left out where there is only one.")
    source: str | None = Field(None, alias="from", description="Source language.")
    n_best: int = Field(1, ge=1, description="Translations of each sentence; not more than `beam`.")
    beam: int = Field(5, ge=1, description="Width of the search; 1: greedy.")

    def lines(self) -> list[str]:
        """The sentences. As in a file, only a line feed ends a line, and the last one may have one too."""
        if self.sentences is not None and self.text is None:
            return self.sentences
        if self.text is None or self.sentences is not None:
            raise HTTPException(422, "sentences, text: give one of them")
        return [line.removesuffix("\r") for line in self.text.removesuffix("\n").split("\n")]


class Answer(BaseModel):
    """For each sentence its translations, best first; a score is a log-probability over length."""

    translations: list[list[Translation]]
    direction: str
    seconds: float
    warnings: list[str] = Field(description="Sentences that were too long for the model and were cut.")


class Model(BaseModel):
    """What is served."""

    run: str
    directions: list[str] = Field(description="Names such as por-en.")
    languages: dict[Literal["from", "to"], list[str]]
    strategy: str = Field(description="How training balanced the languages.")
    step: int = Field(description="Updates after which the checkpoint was written.")
    version: str


class Health(BaseModel):
    """It answers, so it is alive."""

    status: Literal["ok"] = "ok"
    requests: int = Field(description="Requests that are read or wait now.")


class Problem(BaseModel):
    """What is wrong, in one line."""

    error: str


# The worker: one thread, which owns the model.


@dataclass
class Job:
    """A request on its way: `answer` is done when all sentences are translated, or cancelled when nobody waits."""

    sentences: Sequence[str]
    direction: Direction
    options: SearchOptions
    answer: Future[list[list[Translation]]] = field(default_factory=Future)
    translations: list[list[Translation]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, translations: list[Translation]) -> None:
        """The next sentence is translated."""
        self.translations.append(translations)
        if len(self.translations) == len(self.sentences) and self.answer.set_running_or_notify_cancel():
            self.answer.set_result(self.translations)

    def fail(self, error: Exception) -> None:
        """It cannot be translated."""
        if not self.answer.done() and self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


class Worker:
    """Translates what waits: the oldest request first, and together with it others of its direction and options.

    A long request is done in several batches, so that it can be given up in between and short ones join in.
    """

    def __init__(self, translator: Translator, limits: Limits) -> None:
        self._translator, self._limits = translator, limits
        self._waiting: list[Job] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="translator", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Put a request, which has sentences, in the queue."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Finish the batch that is being translated, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                self._translate(batch)
            except Exception as error:
                log.exception("a batch of %d sentences could not be translated", len(batch))
                for job, _ in batch:
                    job.fail(error)

    def _next_batch(self) -> list[tuple[Job, int]]:
        """Requests and numbers of their sentences; none when it is time to stop."""
        with self._changed:
            self._waiting = [job for job in self._waiting if not job.answer.done()]
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return [] if self._closing else list(self._fitting(self._waiting))

    def _fitting(self, jobs: list[Job]) -> Iterator[tuple[Job, int]]:
        """As many sentences as may be translated together, at least one."""
        wanted = (jobs[0].direction, jobs[0].options)
        alike = (job for job in jobs if (job.direction, job.options) == wanted)
        items = ((job, number) for job in alike for number in range(len(job.translations), len(job.sentences)))
        characters = 0
        for place, (job, number) in enumerate(islice(items, self._limits.batch_sentences)):
            characters += len(job.sentences[number])
            if place and characters > self._limits.batch_characters:
                return
            yield job, number

    def _translate(self, batch: list[tuple[Job, int]]) -> None:
        def warn(text: str) -> None:  # "line 3: ...", counted in the batch
            line, _, rest = text.removeprefix("line ").partition(": ")
            job, number = batch[int(line) - 1]
            job.warnings.append(f"sentence {number + 1}: {rest}")

        sentences = [job.sentences[number] for job, number in batch]
        found = self._translator.stream(sentences, batch[0][0].direction, batch[0][0].options, warn)
        for (job, _), translations in zip(batch, found, strict=True):
            job.add(translations)


# The API.


class Api:
    """The routes, and what is behind them."""

    def __init__(self, translator: Translator, worker: Worker, model: Model, limits: Limits) -> None:
        self._translator, self._worker, self._model, self._limits = translator, worker, model, limits
        self._requests = 0
        self._page = PAGE.read_bytes()
        self._description = describe(limits)

    def routes(self) -> list[Route]:
        """All there is."""
        return [
            Route("/", self.page, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/api/health", self.health, methods=["GET"]),
            Route("/api/model", self.model, methods=["GET"]),
            Route("/api/translate", self.translate, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """The page for people."""
        return Response(self._page, media_type="text/html")

    async def openapi(self, request: Request) -> Response:
        """The description for programs."""
        return JSONResponse(self._description)

    async def health(self, request: Request) -> Response:
        """Also while the model is busy."""
        return JSONResponse(Health(requests=self._requests).model_dump())

    async def model(self, request: Request) -> Response:
        """What is served."""
        return JSONResponse(self._model.model_dump())

    async def translate(self, request: Request) -> Response:
        """Read, check, wait for the worker."""
        if self._requests >= self._limits.requests:
            raise HTTPException(503, "too many requests are waiting; try again later", {"Retry-After": "1"})
        self._requests += 1
        try:
            start = time.monotonic()
            job = make_job(await _body(request, self._limits), self._translator, self._limits)
            translations = await self._done(job, request) if job.sentences else []
            answer = Answer(
                translations=translations,
                direction=job.direction.name,
                seconds=round(time.monotonic() - start, 4),
                warnings=job.warnings,
            )
            return JSONResponse(answer.model_dump())
        finally:
            self._requests -= 1

    async def _done(self, job: Job, request: Request) -> list[list[Translation]]:
        """What the worker found; a request that took too long, or that nobody waits for any more, is given up."""
        self._worker.submit(job)
        answer = asyncio.wrap_future(job.answer)
        gone = asyncio.ensure_future(request.receive())  # the body has been read, so this ends with the connection
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(either, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
        except Exception as error:
            raise HTTPException(500, "the model failed; the server's log says why") from error
        finally:
            answer.cancel()
            gone.cancel()
        raise HTTPException(504, f"not translated within {self._limits.seconds:g} seconds; send less, or try later")


async def _body(request: Request, limits: Limits) -> bytes:
    """The body, counted while it arrives: the header that announces its length may be absent or wrong."""
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= limits.body:
                    body += chunk
                elif size > READ_ON * limits.body:
                    break
    except TimeoutError:
        raise HTTPException(408, f"the request did not arrive within {limits.seconds:g} seconds") from None
    if size > limits.body:
        raise HTTPException(413, f"the request has more than {limits.body} bytes; send several")
    return bytes(body)


def make_job(body: bytes, translator: Translator, limits: Limits) -> Job:
    """What a body asks for; HTTPException if it cannot be done, 400 if it is not even JSON."""
    try:
        question = Question.model_validate_json(body)
    except ValidationError as error:
        not_json = any(problem["type"] == "json_invalid" for problem in error.errors())
        raise HTTPException(400 if not_json else 422, "; ".join(_complaints(error))) from None
    sentences = question.lines()
    if len(sentences) > limits.sentences:
        raise HTTPException(413, f"{len(sentences)} sentences; a request may have {limits.sentences}, send several")
    for number, sentence in enumerate(sentences, start=1):
        if len(sentence) > limits.characters:
            raise HTTPException(
                413, f"sentence {number}: {len(sentence)} characters; a sentence may have {limits.characters}"
            )
    if question.beam > limits.beam:
        raise HTTPException(422, f"beam: at most {limits.beam}, got {question.beam}")
    direction = choose_direction(translator, question.to, question.source)
    try:
        return Job(sentences, direction, SearchOptions(beam=question.beam, n_best=question.n_best))
    except ValueError as error:
        raise HTTPException(422, str(error)) from None


def _complaints(error: ValidationError) -> Iterator[str]:
    """The first few mistakes, each with the field it is in."""
    fields = [info.alias or name for name, info in Question.model_fields.items()]
    for problem in error.errors()[:3]:
        where = ".".join(map(str, problem["loc"]))
        unknown = problem["type"] == "extra_forbidden"
        what = f"no such field; {did_you_mean(where, fields)}" if unknown else problem["msg"]
        yield f"{where}: {what}" if where else what


def choose_direction(translator: Translator, to: str | None, source: str | None) -> Direction:
    """The direction that is meant; HTTPException, with what is known, if there is none or more than one."""
    for name, code, known in (("to", to, targets(translator)), ("from", source, sources(translator))):
        if code is not None and code not in known:
            raise HTTPException(422, f"{name}: the model does not know {code!r}; known are {', '.join(known)}")
    try:
        return translator.direction(to, source)
    except ValueError:
        choices = {"from": (source, sources(translator)), "to": (to, targets(translator))}
        missing = [name for name, (code, known) in choices.items() if code is None and len(known) > 1]
        problem = f"say {' and '.join(missing)}" if missing else f"{source}-{to}: the model was not trained on this"
        names = ", ".join(direction.name for direction in translator.directions)
        raise HTTPException(422, f"{problem}; known are {names}") from None


def sources(translator: Translator) -> list[str]:
    """The languages that can be translated."""
    return sorted({direction.src for direction in translator.directions})


def targets(translator: Translator) -> list[str]:
    """The languages that can be translated into."""
    return sorted({direction.tgt for direction in translator.directions})


def describe(limits: Limits) -> dict[str, Any]:
    """The API in the words of OpenAPI 3.1."""
    models: list[type[BaseModel]] = [Question, Answer, Model, Health, Problem]
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    fields = schemas["$defs"]["Question"]["properties"]
    fields["sentences"]["anyOf"][0] |= {
        "maxItems": limits.sentences,
        "items": {"type": "string", "maxLength": limits.characters},
    }
    for name in ("beam", "n_best"):
        fields[name]["maximum"] = limits.beam
    refused = {
        "400": "Not JSON.",
        "408": "The request took too long to arrive.",
        "413": f"More than {limits.body} bytes, {limits.sentences} sentences or {limits.characters} characters in one.",
        "422": "A field, value or language that is not known.",
        "500": "The model failed.",
        "503": "Too many requests are waiting; the header Retry-After says when to try again.",
        "504": f"Not translated within {limits.seconds:g} seconds.",
    }
    body = {"required": True, "content": _content("application/json", "Question")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "evenglot", "version": __version__, "description": "Translates with a trained model."},
        "paths": {
            "/": {"get": _operation("page", "A page for people", "text/html")},
            "/openapi.json": {"get": _operation("openapi", "This description", "application/json")},
            "/api/health": {"get": _operation("health", "Is it alive?", "application/json", "Health")},
            "/api/model": {"get": _operation("model", "What is served", "application/json", "Model")},
            "/api/translate": {
                "post": _operation("translate", "Translate sentences", "application/json", "Answer", refused)
                | {"requestBody": body}
            },
        },
        "components": {"schemas": schemas["$defs"]},
    }


def _content(media: str, schema: str | None) -> dict[str, Any]:
    return {media: {"schema": {"$ref": f"#/components/schemas/{schema}"} if schema else {}}}


def _operation(
    name: str, summary: str, media: str, schema: str | None = None, refused: dict[str, str] | None = None
) -> dict[str, Any]:
    """One route: what it answers, and when it refuses to."""
    problem = _content("application/json", "Problem")
    problems = {"403": "Asked under a foreign name, or by a page from elsewhere."} | (refused or {})
    answers: dict[str, Any] = {"200": {"description": summary, "content": _content(media, schema)}}
    answers |= {status: {"description": text, "content": problem} for status, text in problems.items()}
    return {"operationId": name, "summary": summary, "responses": answers}


def _as_json(request: Request, error: Exception) -> Response:
    """Every error has the same form."""
    if not isinstance(error, HTTPException):
        return JSONResponse({"error": "something went wrong; the server's log says what"}, 500)
    known = {404: f"{request.url.path}: there is nothing here; see /openapi.json"}
    known[405] = f"{request.url.path}: {request.method} is not possible here; see /openapi.json"
    return JSONResponse({"error": known.get(error.status_code, error.detail)}, error.status_code, error.headers)


# Who may ask.


class Guard:
    """Keeps pages from elsewhere out, and tells browsers to be strict with ours.

    A page on the web can make a browser ask a server on loopback. If it does so openly, `Origin` names it; if it has
    its own name resolved to our address (DNS rebinding), `Host` does. `ours`: whether we go by that name.
    """

    def __init__(self, app: ASGIApp, ours: Callable[[str], bool]) -> None:
        self._app, self._ours = app, ours
        self._headers = security_headers(PAGE.read_text(encoding="utf-8"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app answer."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        problem = self._objection(Headers(scope=scope))
        answer = JSONResponse({"error": problem}, 403) if problem else self._app
        await answer(scope, receive, send_with_headers)

    def _objection(self, headers: Headers) -> str | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._ours(host):
            return f"this server does not go by the name {host!r}; use its address, or start it with that name"
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return f"a page from {origin!r} may not use this server"
        return None


def allowed_host(loopback: bool, names: Iterable[str]) -> Callable[[str], bool]:
    """Whether a `Host` header, with any port, is one of ours: on loopback its names, and those that were given."""
    given = {name.lower() for name in names}

    def allowed(host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in given or (_is_loopback(name) if loopback else not given)

    return allowed


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def security_headers(page: str) -> dict[str, str]:
    """Only the script and the style that stand in the page may run, and they may talk to us only."""
    hashes = {
        kind: base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        for kind, inside in re.findall(r"<(script|style)>(.*?)</\1>", page, flags=re.DOTALL)
    }
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        **STRICT_HEADERS,
    }


# The server.


class Server(uvicorn.Server):
    """Ends in peace on SIGINT and SIGTERM; uvicorn's own raises the signal again when all is done."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first time, finish what is running; the second time, leave."""
        self.force_exit = self.should_exit
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; ValueError if it cannot be had."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port: expected 0 to {2**16 - 1}, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} of {host} is taken; choose another with --port") from error
        raise ValueError(f"cannot listen on port {port} of {host}: {error.strerror}") from error


@contextmanager
def prepared(
    translator: Translator, model: Model, listening: socket.socket, limits: Limits, names: Sequence[str] = ()
) -> Iterator[Server]:
    """A server with its worker; `server.run(sockets=[listening])` runs it."""
    worker = Worker(translator, limits)
    app = Starlette(
        routes=Api(translator, worker, model, limits).routes(),
        exception_handlers={HTTPException: _as_json, Exception: _as_json},
    )
    app.router.redirect_slashes = False
    config = uvicorn.Config(
        Guard(app, allowed_host(_is_loopback(listening.getsockname()[0]), names)),
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=round(2 * limits.seconds) + 5,  # longer than any request lasts
    )
    try:
        yield Server(config)
    finally:
        worker.close()


def about(run: Run, which: str, translator: Translator) -> Model:
    """What is served."""
    return Model(
        run=run.folder.resolve().name,
        directions=[direction.name for direction in translator.directions],
        languages={"from": sources(translator), "to": targets(translator)},
        strategy=run.config().balance.strategy,
        step=choose(run, which).step,
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
    device: Literal["auto", "cpu", "cuda"] = "auto",
    engine: EngineName = "torch",
    limits: Limits | None = None,
    tell: Callable[[str], object] = _say,
) -> None:
    """Serve the model of a run until SIGINT or SIGTERM; then running requests are finished, and it returns.

    `port` 0: any that is free. `names`: host names, beside those of loopback, by which browsers may ask for it.
    """
    chosen = limits or Limits()
    with listen(host, port) as listening:  # first, so that a port that is taken is told at once
        translator = load(run, which=which, device=device, engine=engine)
        model = about(Run(run), which, translator)
        address, taken = listening.getsockname()[:2]
        with prepared(translator, model, listening, chosen, names) as server:
            tell(f"Serving {run} at http://{f'[{address}]' if ':' in address else address}:{taken} (Ctrl-C stops it)")
            if not _is_loopback(address):
                tell("Everybody who can reach this machine can use it: there is no password.")
            server.run(sockets=[listening])
    tell("Stopped.")
