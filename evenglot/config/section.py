"""What all parts of the configuration have in common."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from evenglot.config.source import Source


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, nothing is converted, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_empty(cls, value: Any) -> Any:
        """A section of which all lines are commented out is None to YAML."""
        return {} if value is None else value


@dataclass(frozen=True)
class Context:
    """What a value must know of the file it stands in."""

    folder: Path
    source: Source | None = None
    check_files: bool = False

    @staticmethod
    def of(info: ValidationInfo) -> Context:
        """The context of a validation; a configuration made in Python stands in the working folder."""
        return info.context or Context(Path.cwd())


def absolute(path: str, info: ValidationInfo) -> str:
    """Paths are relative to the folder of the config file."""
    return os.path.normpath(Context.of(info).folder / os.path.expanduser(path))


FilePath = Annotated[str, Field(min_length=1), AfterValidator(absolute)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
