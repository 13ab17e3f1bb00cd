"""The API in the words of OpenAPI 3.1, from the messages and their limits."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from evenglot import __version__
from evenglot.serve.messages import Answer, Health, Limits, Model, Problem, Question


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
