"""Properties of strategies, so that other modules need not depend on names or classes of strategies.

A balancer has its `needs`; `catalogue.describe` returns them, and more, from a name and options alone, before the
sizes of the corpora are known.
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
    """The losses that a balancer observes: their split, and the unit that its counts are in."""

    split: Split = "train"
    unit: Literal["token", "character"] = "token"

    def __post_init__(self) -> None:
        if self.split not in ("train", "valid"):
            raise OptionError("signal", f"expected 'train' or 'valid', got {self.split!r}")
        if self.unit not in ("token", "character"):
            raise OptionError("loss_per", f"expected 'token' or 'character', got {self.unit!r}")


@dataclass(frozen=True)
class GradientProbe:
    """The gradients to compute on small samples of every group, after the first step and then every `every` steps.

    For each group, sample up to `sentences` sentence pairs or `tokens` target tokens of training and of validation
    data, and compute the gradient of the training loss on each. The reward of a group, passed to the balancer's
    `reward`, is the mean cosine similarity between its training gradient and the validation gradients of all groups.
    """

    every: int
    sentences: int
    tokens: int


@dataclass(frozen=True)
class Needs:
    """What the training loop must provide, besides sampling with the shares `mixture.sample`."""

    losses: Signal | None = None  # pass these losses to `observe`
    loss_weights: bool = False  # multiply the token losses of each group by `mixture.loss`
    example_weights: bool = False  # weight the examples of each update by `example_weights`
    gradients: GradientProbe | None = None  # pass the result of this probe to `reward`
    pairs_drawn: bool = False  # pass the number of sentence pairs drawn from each group to `update`

    @property
    def validation_losses(self) -> bool:
        """Whether it observes validation losses."""
        return self.losses is not None and self.losses.split == "valid"

    @property
    def validation_text(self) -> bool:
        """Whether every group needs a validation set."""
        return self.validation_losses or self.gradients is not None


# A strategy that changes q at every step and samples from it should not sample an older q than this many updates: by
# then q has often moved far from it, and MultiDDS has probed again.
LONG_LAG = 1000


@dataclass(frozen=True)
class Sampling:
    """Default sampling settings of a strategy; the configuration can override them (`batches.draw`)."""

    oversample: Literal["cycle", "released"] = "cycle"
    max_scale_up: float = 1.5


@dataclass(frozen=True)
class Description:
    """Properties of a strategy that follow from its name and options, independently of the data."""

    needs: Needs = field(default_factory=Needs)
    cadence: Cadence = "never"  # when the mixture can change
    tau: float | None = None  # sampling temperature if constant for the whole run; 1: proportional, inf: uniform
    sampling: Sampling = field(default_factory=Sampling)
    gradual: bool = False  # the mixture follows what has been drawn, in small steps

    @property
    def needs_short_intervals(self) -> bool:
        """Whether a mixture that holds for a whole pass over the data would be far from the strategy's."""
        return self.gradual or self.samples_every_step

    @property
    def samples_every_step(self) -> bool:
        """Whether q changes at every step and is sampled, not a weight of losses: each interval then samples an old q.

        "Every step" includes every few steps, as for strategies that probe gradients.
        """
        return self.cadence == "step" and not self.needs.loss_weights


Describe = Callable[..., Description]  # takes all options of a strategy by name, including defaults


def fixed_mixture(**options: Any) -> Description:
    """Describe a strategy with a constant mixture and no needs."""
    return Description()
