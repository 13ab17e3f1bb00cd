"""Optional packages: `pip install evenglot` brings NumPy alone, and extras bring what else a command needs."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

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

# The packages of every extra, as they are installed (pyproject.toml): what `evenglot doctor` looks for.
EXTRAS = {
    "train": tuple({"yaml": "PyYAML"}.get(name, name) for name in TRAIN),
    "figures": ("matplotlib",),
    "hf": ("transformers", "accelerate"),
    "lora": ("peft",),
    "parquet": ("pyarrow",),
    "ct2": ("ctranslate2",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "trackio": ("trackio",),
    "mlflow": ("mlflow",),
    "frames": ("pandas",),
    "langid": ("py3langid",),
    "lightning": ("lightning",),
    "ray": ("ray",),
    "serve": ("starlette", "uvicorn"),
}


class MissingExtraError(ModuleNotFoundError, ValueError):
    """A package of an extra is not installed. As a ValueError, the command line prints it as one line."""


def missing(extra: str, *packages: str) -> MissingExtraError:
    """The error to raise: it names the packages and the command that installs them."""
    verb = "is" if len(packages) == 1 else "are"
    return MissingExtraError(f'{", ".join(packages)} {verb} not installed: pip install "evenglot[{extra}]"')


def absent() -> list[str]:
    """The packages of `train` that are not installed."""
    return [name for name in TRAIN if find_spec(name) is None]


def import_transformers() -> Any:
    """The transformers package, imported only when needed because the import takes seconds."""
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise missing("hf", "transformers") from error


def import_peft() -> Any:
    """The peft package (LoRA), imported only when needed: it imports transformers."""
    try:
        with quiet(import_transformers()):
            return importlib.import_module("peft")
    except ModuleNotFoundError as error:
        if error.name != "peft":
            raise
        raise missing("lora", "peft") from error


@contextmanager
def silent_bars(hub: Any) -> Iterator[None]:
    """Hide the progress bars of huggingface_hub."""
    utils = hub.utils
    if utils.are_progress_bars_disabled():
        yield
        return
    utils.disable_progress_bars()
    try:
        yield
    finally:
        utils.enable_progress_bars()


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Silence progress bars and warnings of transformers, such as the advice to install sacremoses (not used here)."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
