"""Errors for running out of memory, with a smaller batch size to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from evenglot.config import Config
from evenglot.training.step import TrainingError


class OutOfMemoryError(TrainingError):
    """A batch does not fit into memory."""


@contextmanager
def memory_errors_explained(config: Config, step: Callable[[], int]) -> Iterator[None]:
    """Convert the various out-of-memory errors of torch and Python to OutOfMemoryError."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_memory_error(error):
            raise
        budget = config.batches.tokens_per_batch
        smaller = max(budget // 2, config.clean.max_pieces)
        raise OutOfMemoryError(
            f"after update {step()}: out of memory with batches of {budget:,} tokens; try a new run with "
            f"--set batches.tokens_per_batch={smaller} (the tokens per update stay the same)"
        ) from error


def _is_memory_error(error: BaseException) -> bool:
    said = str(error).lower()
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in said or "out of memory" in said
    )
