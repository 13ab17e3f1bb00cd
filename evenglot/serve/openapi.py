"""OpenAPI 3.1 description of the API, generated from the messages and their limits."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from evenglot import __version__
from evenglot.serve.messages import Answer, Health, Limits, Model, Problem, Question

Pair = tuple[str | None, str | None]  # source and target language; None: not given


def describe(limits: Limits, accepted: Set[Pair]) -> dict[str, Any]:
    """OpenAPI 3.1 description of the API of a model that accepts these languages."""
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
    _describe_languages(schemas["$defs"]["Question"], accepted)
    schemas["$defs"]["Question"]["allOf"] = [{"anyOf": list(_beams(limits.beam))}]
    refused = {
        "400": "The body is not JSON.",
        "408": "The request took too long to arrive.",
        "413": f"More than {limits.body} bytes, {limits.sentences} sentences or {limits.characters} characters in a "
        "sentence.",
        "422": "Unknown or invalid field, value or language.",
        "500": "The model failed.",
        "503": "Too many waiting requests; retry after the time given in the header Retry-After.",
        "504": f"Not translated within {limits.seconds:g} seconds.",
    }
    full = {"503": "It is stopping, has too many waiting requests, or lost its model."}
    body = {"required": True, "content": _content("application/json", "Question")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "evenglot", "version": __version__, "description": "Translation with a trained model."},
        "paths": {
            "/": {"get": _operation("page", "Web page", "text/html")},
            "/openapi.json": {"get": _operation("openapi", "OpenAPI description", "application/json")},
            "/metrics": {"get": _operation("metrics", "Metrics for Prometheus", "text/plain")},
            "/api/health": {"get": _operation("health", "Health check", "application/json", "Health")},
            "/api/live": {"get": _operation("live", "Does the process answer?", "application/json", "Health")},
            "/api/ready": {"get": _operation("ready", "Can it take requests?", "application/json", "Health", full)},
            "/api/model": {"get": _operation("model", "Information about the model", "application/json", "Model")},
            "/api/translate": {
                "post": _operation("translate", "Translate sentences", "application/json", "Answer", refused)
                | {"requestBody": body}
            },
        },
        "components": {"schemas": schemas["$defs"]},
    }


def _describe_languages(question: dict[str, Any], accepted: Set[Pair]) -> None:
    """Which languages there are, which may be left out, and which go together."""
    columns = [sorted({pair[side] for pair in accepted}, key=lambda code: code or "") for side in (0, 1)]
    names = ("from", "to")
    for name, codes in zip(names, columns, strict=True):
        del question["properties"][name]["anyOf"]
        question["properties"][name] |= {"enum": codes}
    question["required"] = [name for name, codes in zip(names, columns, strict=True) if None not in codes]
    if len(accepted) < len(columns[0]) * len(columns[1]):
        choices = [_choice(dict(zip(names, pair, strict=True))) for pair in sorted(accepted, key=str)]
        question["anyOf"] = choices


def _beams(most: int) -> Iterator[dict[str, Any]]:
    """At most as many translations as the beam is wide: JSON Schema has no way to compare two numbers."""
    default = Question.model_fields["beam"].default
    for beam in range(1, most + 1):
        required = [] if beam == default else ["beam"]
        yield {"properties": {"beam": {"const": beam}, "n_best": {"maximum": beam}}, "required": required}


def _choice(pair: dict[str, str | None]) -> dict[str, Any]:
    """Requests with these languages; one that is not given is null or missing."""
    properties = {name: {"const": code} for name, code in pair.items()}
    return {"properties": properties, "required": [name for name, code in pair.items() if code is not None]}


def _content(media: str, schema: str | None) -> dict[str, Any]:
    return {media: {"schema": {"$ref": f"#/components/schemas/{schema}"} if schema else {}}}


def _operation(
    name: str, summary: str, media: str, schema: str | None = None, refused: dict[str, str] | None = None
) -> dict[str, Any]:
    """One route with its responses and errors."""
    problem = _content("application/json", "Problem")
    problems = {"403": "Host or origin not allowed."} | (refused or {})
    answers: dict[str, Any] = {"200": {"description": summary, "content": _content(media, schema)}}
    answers |= {status: {"description": text, "content": problem} for status, text in problems.items()}
    return {"operationId": name, "summary": summary, "responses": answers}
