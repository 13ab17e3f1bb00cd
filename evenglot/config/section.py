"""Shared base of all configuration sections: the class, the declaration of keys, common types."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from evenglot import yaml12
from evenglot.config.source import Source


class Section(BaseModel):
    """A section of the configuration: immutable, no type conversion, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_empty(cls, value: Any) -> Any:
        """Accept an empty section (such as one with all lines commented out), which YAML reads as None."""
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
    """Declare a key: its default, its meaning and when it may change. The range is part of its type.

    `evenglot example`, docs/configuration.md and the JSON schema are generated from these declarations. In the
    example, `meaning` is to the right of the key, or above it if it has several lines.
    `resume`: "free" if the value may change when a run is resumed; "remedy" if it may change to rescue a run that
    diverged, although that affects the training. `grid`: "free" if a finished run of a grid with another value is not
    trained again. `ends_run`: the value determines when a run ends.
    `group` starts a new group of keys, with a text about all of them (may be "").
    `shown`: a value for the example, for keys without a default.
    """
    flags = {"resume": resume, "grid": grid, "ends_run": ends_run or None, "group": group}
    return Field(
        default,
        alias=alias,
        description=meaning,
        examples=None if shown is None else [shown],
        json_schema_extra={name: value for name, value in flags.items() if value is not None},
    )


def keys_of(model: type[Section], indent: str = "    ") -> str:
    """The keys of a section inside another, one per line, for the meaning of the key that holds it."""
    width = max(len(field.alias or name) for name, field in model.model_fields.items())
    lines = []
    for name, field in model.model_fields.items():
        default = "" if field.is_required() else f" Default: {yaml12.dump_line(field.default)}"
        lines.append(f"{indent}{field.alias or name:<{width}}   {field.description}{default}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Context:
    """Facts about the config file that validators need."""

    folder: Path
    source: Source | None = None
    check_files: bool = False

    @staticmethod
    def of(info: ValidationInfo) -> Context:
        """The context of a validation; for a configuration made in Python, paths are relative to the working folder."""
        return info.context or Context(Path.cwd())


def absolute(path: str, info: ValidationInfo) -> str:
    """Make a path absolute; it is relative to the folder of the config file."""
    return os.path.normpath(Context.of(info).folder / os.path.expanduser(path))


FilePath = Annotated[str, Field(min_length=1), AfterValidator(absolute)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
