"""The interface between a balancing strategy and a training loop.

    balancer = create("chi-ibr", sizes={...}, rho=0.05)
    for each interval:
        sample the interval's sentence pairs with the shares balancer.mixture.sample
        for each optimizer step:
            train; multiply the token losses of each group by balancer.mixture.loss if it is not None
            balancer.observe(loss_sums, counts)      # summed over micro-batches and processes
        balancer.update()                            # returns True if the mixture changed

Some strategies need more (`balancer.needs`). `update`, or the 100th `observe`, raises `UnservedError` if the loop does
not provide it.

All values are keyed by group name. The state is plain JSON and can be saved at any time; a restored balancer continues
exactly as the original would have.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenglot.balance.description import Cadence, GradientProbe, Needs, Signal, Split
from evenglot.balance.groups import Groups
from evenglot.balance.saved import SavedState
from evenglot.balance.services import Service, Services, watch
from evenglot.robust.validate import OptionError, Vector


@dataclass(frozen=True)
class Mixture:
    """`sample`: share of sentence pairs to draw from each group; `loss`: factor on each group's losses, or None."""

    sample: dict[str, float]
    loss: dict[str, float] | None = None

    def noting(self, services: Services) -> Mixture:
        """Note in `services` when `loss` is read."""
        vars(self)["_services"] = services
        return self

    # Comparing, printing and copying a mixture, as a log does, is not reading the weights.

    def __eq__(self, other: object) -> bool:
        return self.__getstate__() == other.__getstate__() if isinstance(other, Mixture) else NotImplemented

    def __repr__(self) -> str:
        return f"Mixture(sample={self.sample!r}, loss={vars(self)['loss']!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_services"}


class _LossWeights:
    """The attribute `loss` of a mixture, which notes that it is read."""

    def __get__(self, mixture: Mixture | None, owner: type) -> dict[str, float] | None:
        if mixture is None:
            return None  # the default
        fields = vars(mixture)
        if (services := fields.get("_services")) is not None:
            services.used.add("loss_weights")
        weights: dict[str, float] | None = fields["loss"]
        return weights

    def __set__(self, mixture: Mixture, weights: dict[str, float] | None) -> None:
        vars(mixture)["loss"] = weights  # only by __init__: the dataclass is frozen


Mixture.loss = _LossWeights()  # type: ignore[assignment]


class Balancer:
    """Base class of all strategies: a mixture over groups, by default constant and proportional to the data."""

    strategy: str = ""  # name in the catalogue
    needs: Needs = Needs()  # what the training loop has to provide
    cadence: Cadence = "never"  # when the mixture can change
    baseline: Vector | None = None  # reference losses to subtract, in the order of the groups
    steadier_estimator: str | None = None  # less biased `estimator` for updates of few batches, if any
    is_faint: bool = False  # True if, for these corpus sizes, its defaults keep the mixture close to proportional

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        watch(cls)

    def __init__(self, groups: Groups, q: Vector | None = None) -> None:
        self.groups = groups
        self.services = Services()
        self.intervals = 0
        self._q = groups.p if q is None else q

    @property
    def signal(self) -> Signal | None:
        """The losses it observes; None if it uses none."""
        return self.needs.losses

    @property
    def needs_gradients(self) -> GradientProbe | None:
        """The gradient probe it needs, if any."""
        return self.needs.gradients

    @property
    def weighs_examples(self) -> bool:
        """Whether `example_weights` must be called at every step."""
        return self.needs.example_weights

    @property
    def q(self) -> dict[str, float]:
        """The current target mixture by group, in the unit of p."""
        return self.groups.keyed(self._q)

    @property
    def losses(self) -> dict[str, float | None] | None:
        """Current loss estimates by group (None: not observed yet); None if the strategy uses no losses."""
        return None

    @property
    def mixture(self) -> Mixture:
        """Sampling shares and loss weights that realise q."""
        return Mixture(sample=self.groups.keyed(self.groups.sentence_shares(self._q)))

    def reach(self, group: str) -> float | None:
        """Largest share of the sampled data that this group can reach, in the unit of p; None: no limit."""
        extremes = self.extremes(group)
        if extremes is None:
            return None
        place = self.groups.names.index(group)
        return max(float(mixture[place]) for mixture in extremes)

    def extremes(self, group: str) -> list[Vector] | None:
        """Reachable sampling mixtures, in the unit of p, one of which maximises the share of this group.

        None: no known limit. This is the default for strategies whose mixture can change.
        """
        return [self._q] if self.cadence == "never" else None

    def observe(self, loss_sums: Mapping[str, float], counts: Mapping[str, float], split: Split = "train") -> None:
        """Record one optimizer step (or validation): loss sum and count of each group, summed over all ranks."""

    def reward(self, rewards: Mapping[str, float]) -> None:
        """Record the result of one gradient probe (`needs.gradients`): the reward of each group that has data."""

    def example_weights(self, losses: ArrayLike, names: Sequence[str]) -> Vector:
        """Weights of the examples of a batch, summing to 1, from their mean token losses and their groups."""
        return np.full(len(names), 1 / len(names))

    def serves(self, *needs: Service) -> None:
        """Declare that the loop provides these needs, by their names in `Needs`, although it has not done so yet."""
        self.services.declare(needs)

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """End an interval in which `drawn` pairs were sampled (default: as planned). True if the mixture changed."""
        self.intervals += 1
        return False

    def state_dict(self) -> dict[str, Any]:
        """The state to save: plain JSON values keyed by group."""
        return {
            "strategy": self.strategy,
            "intervals": self.intervals,
            "q": self.groups.keyed(self._q),
            "services": self.services.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state saved by the same strategy for the same groups; any other raises and changes nothing."""
        saved = SavedState(state, self.groups)
        if (strategy := saved["strategy"]) != self.strategy:
            raise OptionError("state", f"saved by {shortened(strategy)}, but this is {self.strategy!r}")
        before = copy.deepcopy(vars(self))
        try:
            self._load(saved)
            saved.refuse_unread()
        except Exception as error:  # of strategies of other authors, too, which may not expect what they find
            vars(self).update(before)
            if isinstance(error, ValueError):
                raise
            raise OptionError("state", f"not valid: {type(error).__name__}: {error}") from error

    def _load(self, state: SavedState) -> None:
        """Restore what `state_dict` returned; raise if it does not match. Keys that nobody reads are an error."""
        self.intervals = state.count("intervals")
        self._q = state.shares("q")
        self.services = Services.of_state(state.section("services") if "services" in state else None)


watch(Balancer)


def loss_vectors(groups: Groups, loss_sums: Mapping[str, float], counts: Mapping[str, float]) -> tuple[Vector, Vector]:
    """Checked sums and counts in the order of the groups; omitted groups count as not observed (count 0)."""
    for name, count in counts.items():
        if name not in loss_sums and count > 0:  # a missing loss must not be treated as a loss of 0
            raise OptionError("loss_sums", f"no value for {name!r}, whose count is {count:g}")
    for name in loss_sums:
        if name not in counts:
            raise OptionError("counts", f"no value for {name!r}, which has a loss")
    sums = groups.vector(loss_sums, "loss_sums", default=0.0)
    numbers = groups.vector(counts, "counts", default=0.0)
    if (numbers < 0).any():
        raise OptionError(
            "counts", f"{groups.names[int(np.argmin(numbers))]!r} has {numbers.min():g}; expected 0 or more"
        )
    return sums, numbers
