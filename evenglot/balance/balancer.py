"""What every strategy offers a training loop, and what it may ask of it.

    balancer = create("chi-ibr", sizes={...}, rho=0.05)
    for each interval:
        draw the interval's sentence pairs with the shares balancer.mixture.sample
        for each optimizer step:
            train; multiply the token losses of each group by balancer.mixture.loss, if that is not None
            balancer.observe(loss_sums, counts)      # summed over micro-batches and processes
        balancer.update()                            # True: the mixture changed

Everything is keyed by the name of the group. State is plain JSON; a balancer that is saved at any moment and loaded
again goes on exactly as if nothing had happened.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenglot.balance.description import Cadence, GradientProbe, Needs, Signal, Split
from evenglot.balance.groups import Groups
from evenglot.robust.validate import OptionError, Vector


@dataclass(frozen=True)
class Mixture:
    """What to show next: `sample`, the share of sentence pairs to draw from each group; `loss`, factors or None."""

    sample: dict[str, float]
    loss: dict[str, float] | None = None


class Balancer:
    """The base of all strategies: a mixture over groups that, by itself, stays at the data proportions."""

    strategy: str = ""  # the name it was created by
    needs: Needs = Needs()  # what it asks of the training loop
    cadence: Cadence = "never"  # when the mixture can change
    baseline: Vector | None = None  # reference losses that it takes off, in the order of the groups
    steadier_estimator: str | None = None  # if it follows means of updates, the `estimator` for updates of few batches
    is_faint: bool = False  # do its defaults hardly let the mixture leave the data on corpora of these sizes?

    def __init__(self, groups: Groups, q: Vector | None = None) -> None:
        self.groups = groups
        self.intervals = 0
        self._q = groups.p if q is None else q

    @property
    def signal(self) -> Signal | None:
        """The losses it observes; None if it goes by none."""
        return self.needs.losses

    @property
    def needs_gradients(self) -> GradientProbe | None:
        """How gradients should be probed, if they should."""
        return self.needs.gradients

    @property
    def weighs_examples(self) -> bool:
        """Should `example_weights` be asked at every step?"""
        return self.needs.example_weights

    @property
    def q(self) -> dict[str, float]:
        """The mixture this strategy aims at, in the unit of p, by group."""
        return self.groups.keyed(self._q)

    @property
    def losses(self) -> dict[str, float | None] | None:
        """The losses it goes by, by group (None: not seen yet); None if it goes by none."""
        return None

    @property
    def mixture(self) -> Mixture:
        """How to realise q: what to draw, and how to weight the loss."""
        return Mixture(sample=self.groups.keyed(self.groups.sentence_shares(self._q)))

    def reach(self, group: str) -> float | None:
        """The largest share, in the unit of p, that this group can get of what is sampled; None: no limit."""
        extremes = self.extremes(group)
        if extremes is None:
            return None
        place = self.groups.names.index(group)
        return max(float(mixture[place]) for mixture in extremes)

    def extremes(self, group: str) -> list[Vector] | None:
        """Mixtures that can be sampled, in the unit of p; no other gives this group more than one of them does.

        None: the strategy sets no limit. So it is for a strategy that moves and does not say how far.
        """
        return [self._q] if self.cadence == "never" else None

    def observe(self, loss_sums: Mapping[str, float], counts: Mapping[str, float], split: Split = "train") -> None:
        """Take note of one optimizer step (or one validation): summed loss and count of each group, all ranks."""

    def reward(self, rewards: Mapping[str, float]) -> None:
        """Take note of one probe of gradients (`needs.gradients`): the reward of each group that has data."""

    def example_weights(self, losses: ArrayLike, names: Sequence[str]) -> Vector:
        """Weights that sum to 1, for the mean token losses of the examples of a batch and the groups they are of."""
        return np.full(len(names), 1 / len(names))

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """End of an interval, in which `drawn` pairs were shown (default: as planned). Did the mixture change?"""
        self.intervals += 1
        return False

    def state_dict(self) -> dict[str, Any]:
        """All that must be saved, as plain JSON values keyed by group."""
        return {"strategy": self.strategy, "intervals": self.intervals, "q": self.groups.keyed(self._q)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, of the same strategy and the same groups. If it does not fit, nothing changes."""
        if state.get("strategy") != self.strategy:
            raise OptionError("state", f"was saved by {state.get('strategy')!r}, this is {self.strategy!r}")
        before = copy.deepcopy(vars(self))
        try:
            self._load(state)
        except (KeyError, TypeError, ValueError) as error:
            vars(self).update(before)
            if isinstance(error, KeyError):
                raise OptionError("state", f"incomplete, it has no {error}") from error
            raise

    def _load(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; raise if it does not fit."""
        self.intervals = int(state["intervals"])
        self._q = self.groups.vector(state["q"], "state: q")


def loss_vectors(groups: Groups, loss_sums: Mapping[str, float], counts: Mapping[str, float]) -> tuple[Vector, Vector]:
    """Checked sums and counts in the order of the groups; groups that are not mentioned were not seen (count 0)."""
    for name, count in counts.items():
        if name not in loss_sums and count > 0:  # a loss that somebody dropped, not one of 0
            raise OptionError("loss_sums", f"nothing given for {name!r}, of which {count:g} were counted")
    for name in loss_sums:
        if name not in counts:
            raise OptionError("counts", f"nothing given for {name!r}, which has a loss")
    sums = groups.vector(loss_sums, "loss_sums", default=0.0)
    numbers = groups.vector(counts, "counts", default=0.0)
    if (numbers < 0).any():
        raise OptionError(
            "counts", f"{groups.names[int(np.argmin(numbers))]!r} has {numbers.min():g}; expected 0 or more"
        )
    return sums, numbers
