"""What is asked and answered, and within which limits; the OpenAPI description is made from these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from evenglot.inference.translate import Translation


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
