"""Checks on what callers pass in: clean float64 arrays out, or an OptionError that names the argument."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]


class OptionError(ValueError):
    """An argument, or an option of a strategy, is wrong: `option` is its name, `message` the rest of the text."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(option, message)  # both, so that it can be pickled
        self.option, self.message = option, message

    def __str__(self) -> str:
        return f"{self.option}: {self.message}"


def vector(values: ArrayLike, name: str, length: int | None = None) -> Vector:
    """A finite, non-empty one-dimensional float64 array (of `length`, if given)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(name, f"expected a list of numbers, got {values!r}") from error
    if array.ndim != 1 or array.size == 0:
        raise OptionError(name, f"expected a non-empty list of numbers, got shape {array.shape}")
    if length is not None and array.size != length:
        raise OptionError(name, f"expected {length} values, one for each group, got {array.size}")
    if not np.isfinite(array).all():
        where = int(np.flatnonzero(~np.isfinite(array))[0])
        raise OptionError(name, f"value {where} is {array[where]}; every value must be finite")
    return array


def distribution(weights: ArrayLike, name: str = "p") -> Vector:
    """Non-negative weights, divided by their sum. Read-only, because sets keep it for their lifetime."""
    array = vector(weights, name)
    if (array < 0).any():
        where = int(np.flatnonzero(array < 0)[0])
        raise OptionError(name, f"value {where} is {array[where]}; shares cannot be negative")
    largest = float(array.max())
    if largest == 0:
        raise OptionError(name, "all values are 0; at least one group needs a positive share")
    array = array / largest  # first, so that sums of huge or tiny weights neither overflow nor vanish
    array /= array.sum()
    array[array < np.finfo(np.float64).tiny] = 0  # their reciprocals would overflow
    array.flags.writeable = False
    return array


def number(value: float, name: str, low: float = -np.inf, high: float = np.inf, *, above: bool = False) -> float:
    """A finite number with low <= value <= high, or low < value if it must be `above`."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(name, f"expected a number, got {value!r}") from error
    if not np.isfinite(result) or result > high or result < low or (above and result == low):
        bounds = (
            f"above {low:g}" if above else f"{low:g} or more" if high == np.inf else f"between {low:g} and {high:g}"
        )
        raise OptionError(name, f"must be a finite number, {bounds}; got {value!r}")
    return result
