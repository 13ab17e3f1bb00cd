"""Optional packages: `pip install evenglot` brings NumPy alone, and extras bring what else a command needs."""

from __future__ import annotations

from importlib.util import find_spec

# The packages of the extra `train`, as they are imported.
TRAIN = (
    "torch",
    "sentencepiece",
    "sacrebleu",
    "pydantic",
    "yaml",
    "typer",
    "rich",
    "jinja2",
    "safetensors",
    "zstandard",
)


class MissingExtraError(ModuleNotFoundError, ValueError):
    """A package of an extra is not installed. As a ValueError, the command line prints it as one line."""


def missing(extra: str, *packages: str) -> MissingExtraError:
    """The error to raise: it names the packages and the command that installs them."""
    verb = "is" if len(packages) == 1 else "are"
    return MissingExtraError(f'{", ".join(packages)} {verb} not installed: pip install "evenglot[{extra}]"')


def absent() -> list[str]:
    """The packages of `train` that are not installed."""
    return [name for name in TRAIN if find_spec(name) is None]
