"""What a strategy says about itself, so that nobody has to know it by its name or its class.

A balancer carries its `needs`; `catalogue.describe` tells the same, and more, from a name and options alone, before
the sizes of the corpora are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from evenglot.robust.validate import OptionError

Split = Literal["train", "valid"]
Cadence = Literal["never", "interval", "step"]


@dataclass(frozen=True)
class Signal:
    """The losses that a balancer observes: of which split, and summed over what its counts count."""

    split: Split = "train"
    unit: Literal["token", "character"] = "token"

    def __post_init__(self) -> None:
        if self.split not in ("train", "valid"):
            raise OptionError("signal", f"expected 'train' or 'valid', got {self.split!r}")
        if self.unit not in ("token", "character"):
            raise OptionError("loss_per", f"expected 'token' or 'character', got {self.unit!r}")


@dataclass(frozen=True)
class GradientProbe:
    """A request to the training loop: every `every` steps, gradients on small samples of every group.

    For each group draw up to `sentences` sentence pairs or `tokens` target tokens of training and of validation data,
    compute the gradient of the training loss on each, and pass the balancer's `reward` how well they agree: for each
    group the mean, over all validation gradients, of the cosine between its training gradient and these.
    """

    every: int
    sentences: int
    tokens: int


@dataclass(frozen=True)
class Needs:
    """What a strategy needs of a training loop, beside sampling with the shares `mixture.sample`."""

    losses: Signal | None = None  # pass these losses to `observe`
    loss_weights: bool = False  # multiply the token losses of each group by `mixture.loss`
    example_weights: bool = False  # weight the examples of each update by `example_weights`
    gradients: GradientProbe | None = None  # pass the result of this probe to `reward`

    @property
    def validation_losses(self) -> bool:
        """Does it observe validation losses?"""
        return self.losses is not None and self.losses.split == "valid"

    @property
    def validation_text(self) -> bool:
        """Does every group need a validation set?"""
        return self.validation_losses or self.gradients is not None


@dataclass(frozen=True)
class Sampling:
    """How intervals are drawn with a strategy, unless the user chooses otherwise (`batches.draw`)."""

    oversample: Literal["cycle", "released"] = "cycle"
    max_scale_up: float = 1.5


@dataclass(frozen=True)
class Description:
    """The facts about a strategy that follow from its name and options, whatever the data."""

    needs: Needs = field(default_factory=Needs)
    cadence: Cadence = "never"  # when the mixture can change
    tau: float | None = None  # the temperature that the mixture is for the whole run; 1: proportional, inf: uniform
    sampling: Sampling = field(default_factory=Sampling)


Describe = Callable[..., Description]  # takes all options of a strategy by name, defaults filled in


def fixed_mixture(**options: Any) -> Description:
    """Of a strategy whose mixture stays, and that needs nothing."""
    return Description()
