"""The routes: read and validate a request, then wait for the worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evenglot.directions import Direction
from evenglot.inference.engines import SearchOptions
from evenglot.inference.translate import Translation, Translator
from evenglot.serve.messages import Answer, Health, Limits, Model, Question
from evenglot.serve.metrics import Metrics
from evenglot.serve.openapi import describe
from evenglot.serve.worker import Job, Worker
from evenglot.wording import did_you_mean

PAGE = Path(__file__).with_name("page.html")
PROMETHEUS = "text/plain; version=0.0.4"
READ_ON = 4  # read up to this multiple of the maximum body, as a client that is still sending would miss the response


class Api:
    """The routes and their handlers."""

    def __init__(self, translator: Translator, worker: Worker, model: Model, limits: Limits) -> None:
        self._translator, self._worker, self._model, self._limits = translator, worker, model, limits
        self.metrics = Metrics()
        self.is_stopping: Callable[[], bool] = lambda: False  # set by the server
        self.connections: Callable[[], int] = lambda: 0
        self._requests = 0
        self._page = PAGE.read_bytes()
        self._description = describe(limits, accepted_languages(translator))

    def routes(self) -> list[Route]:
        """All routes."""
        return [
            Route("/", self.page, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/metrics", self.prometheus, methods=["GET"]),
            Route("/api/health", self.health, methods=["GET"]),
            Route("/api/live", self.live, methods=["GET"]),
            Route("/api/ready", self.ready, methods=["GET"]),
            Route("/api/model", self.model, methods=["GET"]),
            Route("/api/translate", self.translate, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """The web page."""
        return Response(self._page, media_type="text/html")

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI description."""
        return JSONResponse(self._description)

    async def health(self, request: Request) -> Response:
        """Health check; also responds while the model is busy."""
        return JSONResponse(Health(requests=self._requests).model_dump())

    async def live(self, request: Request) -> Response:
        """Whether the process answers; if not, restart it."""
        return JSONResponse(Health(requests=self._requests).model_dump())

    async def ready(self, request: Request) -> Response:
        """Whether to send requests here: not while it stops, is full, or has lost its model."""
        if self.is_stopping():
            raise HTTPException(503, "the server is stopping")
        if not self._worker.is_alive:
            raise HTTPException(503, "the model is not running; restart the server")
        if self._requests >= self._limits.requests:
            raise HTTPException(503, "too many waiting requests; try again later", {"Retry-After": "1"})
        return JSONResponse(Health(requests=self._requests).model_dump())

    async def prometheus(self, request: Request) -> Response:
        """Metrics for Prometheus."""
        gauges = {"requests_waiting": self._requests, "connections": self.connections()}
        return Response(self.metrics.text(self._model, gauges), media_type=PROMETHEUS)

    async def model(self, request: Request) -> Response:
        """Information about the served model."""
        return JSONResponse(self._model.model_dump())

    async def translate(self, request: Request) -> Response:
        """Read and validate the request, and wait for the worker."""
        start = time.monotonic()
        body = await _body(request, self._limits)  # takes no place in the queue, which slow clients would fill
        if self._requests >= self._limits.requests:
            raise HTTPException(503, "too many waiting requests; try again later", {"Retry-After": "1"})
        self._requests += 1
        try:
            job = make_job(body, self._translator, self._limits)
            translations = await self._done(job, request) if job.sentences else []
            answer = Answer(
                translations=translations,
                direction=job.direction.name,
                seconds=round(time.monotonic() - start, 4),
                warnings=job.warnings,
            )
            self.metrics.translated(len(job.sentences), answer.seconds)
            return JSONResponse(answer.model_dump())
        finally:
            self._requests -= 1

    async def _done(self, job: Job, request: Request) -> list[list[Translation]]:
        """The worker's translations; the request is cancelled on timeout or when the client disconnects."""
        self._worker.submit(job)
        answer = asyncio.wrap_future(job.answer)
        gone = asyncio.ensure_future(request.receive())  # the body is read, so this completes on disconnection
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(either, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
        except Exception as error:
            raise HTTPException(500, "the model failed; see the server's log") from error
        finally:
            answer.cancel()
            gone.cancel()
        raise HTTPException(
            504, f"not translated within {self._limits.seconds:g} seconds; send less text, or try again later"
        )


async def _body(request: Request, limits: Limits) -> bytes:
    """The body; its size is counted while it arrives, as Content-Length may be missing or wrong."""
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
        raise HTTPException(408, f"request not received within {limits.seconds:g} seconds") from None
    except ClientDisconnect:
        raise HTTPException(400, "incomplete request") from None
    if size > limits.body:
        raise HTTPException(413, f"the request has more than {limits.body} bytes; split it into several")
    return bytes(body)


def make_job(body: bytes, translator: Translator, limits: Limits) -> Job:
    """Parse and validate a request body. Raises HTTPException: 400 if it is not JSON, otherwise 413 or 422."""
    try:
        question = Question.model_validate_json(body)
    except ValidationError as error:
        not_json = any(problem["type"] == "json_invalid" for problem in error.errors())
        raise HTTPException(400 if not_json else 422, "; ".join(_complaints(error))) from None
    sentences = question.lines()
    if len(sentences) > limits.sentences:
        raise HTTPException(
            413, f"{len(sentences)} sentences; at most {limits.sentences} per request, split it into several"
        )
    for number, sentence in enumerate(sentences, start=1):
        if len(sentence) > limits.characters:
            raise HTTPException(
                413, f"sentence {number}: {len(sentence)} characters; at most {limits.characters} per sentence"
            )
    if question.beam > limits.beam:
        raise HTTPException(422, f"beam: expected at most {limits.beam}, got {question.beam}")
    direction = choose_direction(translator, question.to, question.source)
    try:
        return Job(sentences, direction, SearchOptions(beam=question.beam, n_best=question.n_best))
    except ValueError as error:
        raise HTTPException(422, str(error)) from None


def _complaints(error: ValidationError) -> Iterator[str]:
    """The first few validation errors, each with its field."""
    fields = [info.alias or name for name, info in Question.model_fields.items()]
    for problem in error.errors()[:3]:
        where = ".".join(map(str, problem["loc"]))
        unknown = problem["type"] == "extra_forbidden"
        what = f"no such field; {did_you_mean(where, fields)}" if unknown else problem["msg"]
        yield f"{where}: {what}" if where else what


def choose_direction(translator: Translator, to: str | None, source: str | None) -> Direction:
    """The matching direction. Raises HTTPException, listing the available ones, if none or several match."""
    for name, code, known in (("to", to, targets(translator)), ("from", source, sources(translator))):
        if code is not None and code not in known:
            raise HTTPException(422, f"{name}: unknown language {code!r}; available: {', '.join(known)}")
    try:
        return translator.direction(to, source)
    except ValueError:
        choices = {"from": (source, sources(translator)), "to": (to, targets(translator))}
        missing = [name for name, (code, known) in choices.items() if code is None and len(known) > 1]
        untrained = f"{source}-{to}: the model was not trained on this direction"
        problem = f"specify {' and '.join(missing)}" if missing else untrained
        names = ", ".join(direction.name for direction in translator.directions)
        raise HTTPException(422, f"{problem}; available: {names}") from None


def accepted_languages(translator: Translator) -> set[tuple[str | None, str | None]]:
    """The source and target languages that may be asked for together; None: not given."""
    found = set[tuple[str | None, str | None]]()
    for source, to in product((None, *sources(translator)), (None, *targets(translator))):
        with suppress(ValueError):
            translator.direction(to, source)
            found.add((source, to))
    return found


def sources(translator: Translator) -> list[str]:
    """Source languages."""
    return sorted({direction.src for direction in translator.directions})


def targets(translator: Translator) -> list[str]:
    """Target languages."""
    return sorted({direction.tgt for direction in translator.directions})


def as_json(request: Request, error: Exception) -> Response:
    """All errors as JSON objects of the same form."""
    if not isinstance(error, HTTPException):
        return JSONResponse({"error": "internal error; see the server's log"}, 500)
    known = {404: f"{request.url.path}: not found; see /openapi.json"}
    known[405] = f"{request.url.path}: {request.method} is not allowed; see /openapi.json"
    return JSONResponse({"error": known.get(error.status_code, error.detail)}, error.status_code, error.headers)
