"""Requests, responses and limits of the API; the OpenAPI description is generated from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from evenglot.inference.translate import Translation


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of concurrent requests."""

    body: int = 256 * 1024  # bytes per request
    sentences: int = 200  # per request
    characters: int = 5000  # per sentence
    beam: int = 20
    requests: int = 512  # received and waiting for the answer; further ones are rejected
    seconds: float = 60.0  # to receive a body, again to translate it, and again to send the answer
    header_seconds: float = 20.0  # from the connection, or the answer before, to the end of the headers
    connections: int = 1000  # at a time; fewer if the limit of open files is low
    batch_sentences: int = 64  # per batch; kept small, as a running batch cannot be interrupted
    batch_characters: int = 8192  # per batch


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]  # JSON does not tell 5.0 from 5


class Question(BaseModel):
    """Sentences to translate: either a list (`sentences`) or a `text` with one sentence per line."""

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
    to: str | None = Field(None, description="Target language; optional if there is only one.")
    source: str | None = Field(None, alias="from", description="Source language; optional if there is only one.")
    n_best: Whole = Field(1, ge=1, description="Number of translations per sentence; at most `beam`.")
    beam: Whole = Field(5, ge=1, description="Beam size; 1: greedy search.")

    def lines(self) -> list[str]:
        """The sentences. Only a line feed ends a line, and a final line feed is optional."""
        if self.sentences is not None and self.text is None:
            return self.sentences
        if self.text is None or self.sentences is not None:
            raise HTTPException(422, "sentences, text: expected exactly one of the two")
        return [line.removesuffix("\r") for line in self.text.removesuffix("\n").split("\n")]


class Answer(BaseModel):
    """Translations of each sentence, best first; a score is a length-normalised log-probability."""

    translations: list[list[Translation]]
    direction: str
    seconds: float
    warnings: list[str] = Field(
        description="Sentences that were truncated because they exceed the model's maximum length."
    )


class Model(BaseModel):
    """Information about the served model."""

    run: str
    directions: list[str] = Field(description="Names of directions such as por-en.")
    languages: dict[Literal["from", "to"], list[str]]
    strategy: str = Field(description="Balancing strategy used in training.")
    step: int = Field(description="Number of updates of the checkpoint.")
    version: str


class Health(BaseModel):
    """Result of the health check."""

    status: Literal["ok"] = "ok"
    requests: int = Field(description="Number of requests waiting for their answer.")


class Problem(BaseModel):
    """An error message of one line."""

    error: str
