"""The one balancer behind every loss-driven strategy, put together from parts:

signal -> estimator -> baseline -> rule -> constraints -> resample or reweight

what is measured  losses.py    baseline.py  best_response.py, primal_dual.py  Caps  Mixture
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenglot.balance.balancer import Balancer, Mixture, loss_vectors
from evenglot.balance.best_response import Rule
from evenglot.balance.description import Description, Needs, Signal, Split
from evenglot.balance.groups import Groups
from evenglot.balance.losses import Estimator
from evenglot.robust.validate import OptionError, Vector, number

Apply = Literal["resample", "reweight"]


@dataclass(frozen=True)
class Caps:
    """Upper limits on a group's share, whatever its loss says.

    `max_ratio`: q_i <= max_ratio p_i. `max_passes`: no corpus is shown more than that often in a run of `intervals`
    intervals of `interval_size` pairs (default: as many as there are); what is left of it is spread over what is left.
    In a run that is longer than that all are used up some day, and then shown in proportion to their sizes.
    """

    max_ratio: float | None = None
    max_passes: float | None = None
    intervals: int | None = None
    interval_size: float | None = None

    def check(self, groups: Groups) -> None:
        """Refuse limits that no mixture can keep."""
        if self.max_ratio is not None:
            number(self.max_ratio, "max_ratio", 1)
        if self.intervals is not None:
            number(self.intervals, "intervals", 1)
        if self.interval_size is not None:
            number(self.interval_size, "interval_size", 0, above=True)
        if self.max_passes is None:
            return
        number(self.max_passes, "max_passes", 0)
        if groups.unit != "sentences":  # passes are of sentence pairs: a limit on them is none on shares of tokens
            raise OptionError("max_passes", "cannot be kept with p_unit 'tokens'; use 'sentences', or max_ratio")
        if self.intervals is None:
            raise OptionError("intervals", "max_passes needs to know how many intervals the run has, 1 or more")
        needed = self.intervals * self._passes_per_interval(groups)
        if self.max_passes < needed * (1 - 1e-12):
            raise OptionError(
                "max_passes",
                f"{self.intervals} intervals make {needed:g} passes over all data; "
                f"{self.max_passes:g} cannot be kept by any mixture",
            )

    def upper(self, groups: Groups, passes: Vector, done: int) -> Vector | None:
        """The largest allowed q after `done` intervals and `passes` over each corpus; None if nothing is limited.

        They may add up to less than 1: the rule lets limits that clash give way together.
        """
        limits = []
        if self.max_ratio is not None:
            limits.append(self.max_ratio * groups.p)
        if self.max_passes is not None and self.intervals is not None:
            left = max(self.intervals - done, 1) * self._passes_per_interval(groups)
            limits.append(np.maximum(self.max_passes - passes, 0) * groups.p / left)
        if not limits:
            return None
        upper = np.min(limits, axis=0)
        return np.asarray(upper) if upper.any() else groups.p

    def upper_ever(self, groups: Groups) -> Vector | None:
        """The largest q that is allowed in any interval of the planned run; None if nothing is limited.

        A corpus that was never sampled has all its passes left for the last interval.
        """
        return self.upper(groups, np.zeros(len(groups.names)), (self.intervals or 1) - 1)

    def _passes_per_interval(self, groups: Groups) -> float:
        """Passes over all the data in one interval."""
        return 1.0 if self.interval_size is None else float(self.interval_size / groups.sizes.sum())


def every_interval(*, signal: Split, loss_per: Literal["token", "character"], **others: Any) -> Description:
    """A strategy that sets the mixture once an interval, by losses of this split and unit."""
    return Description(Needs(losses=Signal(signal, loss_per)), cadence="interval")


def every_step(*, apply: Apply, **others: Any) -> Description:
    """A strategy that moves q after every step, and samples with it or weights the losses by it."""
    if apply not in ("resample", "reweight"):
        raise OptionError("apply", f"expected 'resample' or 'reweight', got {apply!r}")
    return Description(Needs(losses=Signal(), loss_weights=apply == "reweight"), cadence="step")


class LossDriven(Balancer):
    """Mixtures that follow observed losses: best responses once an interval, or small steps at every step."""

    baseline: Vector

    def __init__(
        self,
        groups: Groups,
        *,
        rule: Rule,
        estimator: Estimator,
        baseline: Vector,
        description: Description,
        caps: Caps | None = None,
        warmup: int = 0,
        drop_negative_baseline: bool = False,
        is_faint: bool = False,
    ) -> None:
        self.rule, self.estimator, self.baseline = rule, estimator, baseline
        self.needs, self.cadence, self.caps = description.needs, description.cadence, caps or Caps()
        self.warmup = int(number(warmup, "warmup", 0))
        self.drop_negative_baseline, self.is_faint = drop_negative_baseline, is_faint
        if estimator.of_batch_means and not self.needs.validation_losses:
            self.steadier_estimator = "interval-mean" if self.cadence == "interval" else "token-ema"
        self._passes = np.zeros(len(groups.names))
        self._moved = False  # since the interval began
        self.caps.check(groups)
        self._start = rule.start(self.caps.upper(groups, self._passes, 0))
        super().__init__(groups, self._start)

    @property
    def mixture(self) -> Mixture:
        """Sample with q; or, when reweighting, sample in proportion to the data and weight the losses."""
        if not self.needs.loss_weights:
            return super().mixture
        data = self.groups.sentence_shares(self.groups.p)
        weights = self.groups.loss_weights(self._q, data)
        return Mixture(sample=self.groups.keyed(data), loss=self.groups.keyed(weights))

    @property
    def losses(self) -> dict[str, float | None]:
        """The running loss of each group; None where nothing was observed yet."""
        losses, seen = self.groups.keyed(self.estimator.losses), self.estimator.seen
        return {name: loss if known else None for (name, loss), known in zip(losses.items(), seen, strict=True)}

    @property
    def passes(self) -> dict[str, float]:
        """How often each corpus has been shown so far."""
        return self.groups.keyed(self._passes)

    def extremes(self, group: str) -> list[Vector] | None:
        """The first mixture, and what the rule answers if this group is far behind all others.

        With `max_passes` this holds for a run as long as planned: after that, limits that clash give way.
        """
        if self.needs.loss_weights:
            return [self.groups.p]
        place = self.groups.names.index(group)
        farthest = self.rule.farthest(place, self._start, self.caps.upper_ever(self.groups))
        return None if farthest is None else [self._start, farthest]

    def observe(self, loss_sums: Mapping[str, float], counts: Mapping[str, float], split: Split = "train") -> None:
        """Take note of losses, if they are of the split this balancer listens to."""
        sums, numbers = loss_vectors(self.groups, loss_sums, counts)
        if split not in ("train", "valid"):
            raise OptionError("split", f"expected 'train' or 'valid', got {split!r}")
        if self.needs.losses is None or split != self.needs.losses.split:
            return
        self.estimator.observe(sums, numbers)
        if self.cadence == "step":
            self._respond()

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """End of an interval: count what was shown and, if this is an interval strategy, answer the losses."""
        if drawn is None:
            interval_size = self.caps.interval_size or self.groups.sizes.sum()
            pairs = interval_size * self.groups.vector(self.mixture.sample, "sample")
        else:
            pairs = self.groups.vector(drawn, "drawn", default=0.0)
            if (pairs < 0).any():
                raise OptionError("drawn", f"{self.groups.names[int(np.argmin(pairs))]!r} has {pairs.min():g} pairs")
        self._passes += np.divide(pairs, self.groups.sizes, out=np.zeros_like(pairs), where=self.groups.sizes > 0)
        self.intervals += 1
        if self.cadence == "interval" and self.intervals >= self.warmup:
            self._respond()
        self.estimator.end_interval()
        moved, self._moved = self._moved, False
        return moved

    def state_dict(self) -> dict[str, Any]:
        """q, passes and everything the estimator has counted."""
        counted = {name: self.groups.keyed(values) for name, values in self.estimator.arrays().items()}
        return {
            **super().state_dict(),
            "passes": self.passes,
            "moved": self._moved,
            "estimator": counted,
            "baseline": self.groups.keyed(self.baseline),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        if not np.array_equal(self.groups.vector(state["baseline"], "state: baseline"), self.baseline):
            raise OptionError(
                "baseline", "other reference losses than when the state was saved; go on with the old ones"
            )
        arrays = self.estimator.arrays()
        if set(state["estimator"]) != set(arrays):
            raise OptionError("state", f"was saved by another estimator, with {', '.join(sorted(state['estimator']))}")
        for name, values in state["estimator"].items():
            arrays[name][:] = self.groups.vector(values, f"state: {name}")
        self._passes = self.groups.vector(state["passes"], "state: passes")
        self._moved = bool(state["moved"])

    def _respond(self) -> None:
        if not self.estimator.seen[self.groups.p > 0].any():
            return
        caps = self.caps.upper(self.groups, self._passes, self.intervals)
        q = self.rule.respond(self._q, self._excess(), caps)
        self._moved = self._moved or not np.array_equal(q, self._q)
        self._q = q

    def _excess(self) -> Vector:
        """Losses minus baselines; a group never seen is taken to be as far behind as the others on average."""
        losses, seen = self.estimator.losses, self.estimator.seen
        excess = losses - self.baseline
        if self.drop_negative_baseline and excess[seen].max() < 0:  # as the released code; needless
            excess = losses
        weight = self.rule.centre[seen]
        mean = weight @ excess[seen] / weight.sum() if weight.any() else excess[seen].mean()
        return np.asarray(np.where(seen, excess, mean))
