"""What all parts of the configuration have in common."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

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


def key(
    default: Any,
    meaning: str,
    *,
    resume: Literal["free", "remedy"] | None = None,
    grid: Literal["free"] | None = None,
    ends_run: bool = False,
    group: str | None = None,
    shown: Any = None,
    alias: str | None = None,
) -> Any:
    """Declare a key: its default, its meaning, and who may change it. Its type has the range.

    `evenglot example`, docs/configuration.md and the JSON schema are made from these declarations. In the example,
    `meaning` stands beside the key, or above it if it has several lines.
    `resume`: "free" if the value may change when a run is resumed, "remedy" if it may, to rescue a run that diverged,
    although that changes what is learned. `grid`: "free" if a finished run with another value still counts as the run
    that a grid asks for. `ends_run`: the value decides when a run ends.
    `group` starts a new group of keys, with a text about all of them (or "").
    `shown`: a value for the example, where there is no default.
    """
    flags = {"resume": resume, "grid": grid, "ends_run": ends_run or None, "group": group}
    return Field(
        default,
        alias=alias,
        description=meaning,
        examples=None if shown is None else [shown],
        json_schema_extra={name: value for name, value in flags.items() if value is not None},
    )


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
