"""The balancer of all loss-driven strategies, composed of:

- signal: the losses to observe (description.Signal)
- estimator: running loss of each group (losses.py)
- baseline: reference losses to subtract (baseline.py)
- rule: excess losses -> next mixture (best_response.py, primal_dual.py)
- noise: weaker responses to differences that may be noise (noise.py)
- constraints: upper limits on the mixture (Caps)
- application: resample or reweight (balancer.Mixture)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenglot.balance.balancer import Balancer, Mixture, loss_vectors
from evenglot.balance.best_response import Rule
from evenglot.balance.description import Description, Needs, Signal, Split
from evenglot.balance.groups import Groups
from evenglot.balance.losses import Estimator
from evenglot.balance.noise import NoiseAware, with_rounding
from evenglot.balance.saved import SavedState
from evenglot.robust.solvers import dot
from evenglot.robust.validate import OptionError, Vector, number

Apply = Literal["resample", "reweight"]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caps:
    """Upper limits on each group's share, independent of its loss.

    `max_ratio`: q_i <= max_ratio p_i. `max_passes`: upper bound on the passes over any corpus in a run of `intervals`
    intervals of `interval_size` pairs (default: the size of the data); the remaining passes are spread evenly over the
    remaining intervals. If the run continues until all corpora are used up, sampling becomes proportional.
    """

    max_ratio: float | None = None
    max_passes: float | None = None
    intervals: int | None = None
    interval_size: float | None = None

    def check(self, groups: Groups) -> None:
        """Raise OptionError if no mixture can satisfy the limits."""
        if self.max_ratio is not None:
            number(self.max_ratio, "max_ratio", 1)
        if self.intervals is not None:
            number(self.intervals, "intervals", 1)
        if self.interval_size is not None:
            number(self.interval_size, "interval_size", 0, above=True)
        if self.max_passes is None:
            return
        number(self.max_passes, "max_passes", 0)
        if groups.unit != "sentences":  # passes count sentence pairs, so they do not limit shares of tokens
            raise OptionError("max_passes", "not available with p_unit 'tokens'; use p_unit 'sentences', or max_ratio")
        if self.intervals is None:
            raise OptionError("intervals", "required by max_passes: the number of intervals of the run, 1 or more")
        needed = self.intervals * self._passes_per_interval(groups)
        if self.max_passes < needed * (1 - 1e-12):
            raise OptionError(
                "max_passes",
                f"{self.intervals} intervals are {needed:g} passes over all data; "
                f"expected at least {needed:g}, got {self.max_passes:g}",
            )

    def upper(self, groups: Groups, passes: Vector, done: int) -> Vector | None:
        """The largest allowed q after `done` intervals and `passes` over each corpus; None if there are no limits.

        The limits may sum to less than 1; the rule then relaxes all of them by the same factor.
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
        """The largest q allowed in any interval of the planned run; None if there are no limits.

        A corpus that has never been sampled still has all its passes left in the last interval.
        """
        return self.upper(groups, np.zeros(len(groups.names)), (self.intervals or 1) - 1)

    def _passes_per_interval(self, groups: Groups) -> float:
        """Passes over the whole data in one interval."""
        return 1.0 if self.interval_size is None else float(self.interval_size / groups.sizes.sum())


def every_interval(*, signal: Split, loss_per: Literal["token", "character"], **others: Any) -> Description:
    """Describe a strategy that updates the mixture after each interval, from losses of this split and unit."""
    return Description(Needs(losses=Signal(signal, loss_per)), cadence="interval")


def every_step(*, apply: Apply, **others: Any) -> Description:
    """Describe a strategy that updates q after every step, and samples from it or weights the losses by it."""
    if apply not in ("resample", "reweight"):
        raise OptionError("apply", f"expected 'resample' or 'reweight', got {apply!r}")
    return Description(Needs(losses=Signal(), loss_weights=apply == "reweight"), cadence="step")


class LossDriven(Balancer):
    """Mixture driven by observed losses: best responses after each interval, or updates after every step."""

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
        noise: NoiseAware | None = None,
        drop_negative_baseline: bool = False,
        is_faint: bool = False,
    ) -> None:
        self.rule, self.estimator, self.baseline, self.noise = rule, estimator, baseline, noise
        self.needs, self.cadence, self.caps = description.needs, description.cadence, caps or Caps()
        self.warmup = int(number(warmup, "warmup", 0))
        self.drop_negative_baseline, self.is_faint = drop_negative_baseline, is_faint
        if estimator.of_batch_means and not self.needs.validation_losses:
            self.steadier_estimator = "interval-mean" if self.cadence == "interval" else "token-ema"
        self._passes = np.zeros(len(groups.names))
        self._said_unknown = False
        self._moved = False  # since the start of the interval
        self.caps.check(groups)
        self._start = rule.start(self.caps.upper(groups, self._passes, 0))
        super().__init__(groups, self._start)

    @property
    def mixture(self) -> Mixture:
        """Sample from q; or, if reweighting, sample proportionally and weight the losses."""
        if not self.needs.loss_weights:
            return super().mixture
        data = self.groups.sentence_shares(self.groups.p)
        weights = self.groups.loss_weights(self._q, data)
        return Mixture(sample=self.groups.keyed(data), loss=self.groups.keyed(weights))

    @property
    def losses(self) -> dict[str, float | None]:
        """Running loss of each group; None if not observed yet."""
        losses, seen = self.groups.keyed(self.estimator.losses), self.estimator.seen
        return {name: loss if known else None for (name, loss), known in zip(losses.items(), seen, strict=True)}

    @property
    def passes(self) -> dict[str, float]:
        """Number of passes over each corpus so far."""
        return self.groups.keyed(self._passes)

    def extremes(self, group: str) -> list[Vector] | None:
        """The initial mixture, and the response of the rule if this group has by far the largest excess loss.

        With `max_passes` this holds for the planned number of intervals; after that, the limits may be relaxed.
        """
        if self.needs.loss_weights:
            return [self.groups.p]
        place = self.groups.names.index(group)
        farthest = self.rule.farthest(place, self._start, self.caps.upper_ever(self.groups))
        return None if farthest is None else [self._start, farthest]

    def observe(self, loss_sums: Mapping[str, float], counts: Mapping[str, float], split: Split = "train") -> None:
        """Record losses if they are of the split in `needs.losses`; other splits are ignored."""
        sums, numbers = loss_vectors(self.groups, loss_sums, counts)
        if split not in ("train", "valid"):
            raise OptionError("split", f"expected 'train' or 'valid', got {split!r}")
        if self.needs.losses is None or split != self.needs.losses.split:
            return
        self.estimator.observe(sums, numbers)
        if self.cadence == "step":
            self._respond()

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """End an interval: count passes and, for cadence 'interval', update the mixture. True if it changed."""
        if drawn is None:
            interval_size = self.caps.interval_size or self.groups.sizes.sum()
            drawn = {name: interval_size * share for name, share in self.mixture.sample.items()}
        self._passes += self.groups.passes(drawn)
        self.intervals += 1
        if self.cadence == "interval" and self.intervals >= self.warmup:
            self._respond()
        self.estimator.end_interval()
        moved, self._moved = self._moved, False
        return moved

    def state_dict(self) -> dict[str, Any]:
        """Passes, estimator state and baselines, besides the common state."""
        counted = {name: self.groups.keyed(values) for name, values in self.estimator.arrays().items()}
        return {
            **super().state_dict(),
            "passes": self.passes,
            "moved": self._moved,
            "estimator": counted,
            "baseline": self.groups.keyed(self.baseline),
        }

    def _load(self, state: SavedState) -> None:
        super()._load(state)
        if not np.array_equal(state.vector("baseline"), self.baseline):
            raise OptionError(
                "baseline", "differs from the reference losses in the saved state; resume with the original ones"
            )
        self._passes = state.vector("passes", least=0)
        self._moved = state.flag("moved")
        self._load_estimator(state.section("estimator"))

    def _load_estimator(self, state: SavedState) -> None:
        arrays = self.estimator.arrays()
        if set(state) != set(arrays):
            raise OptionError("state", f"saved by another estimator, with {', '.join(sorted(map(str, state)))}")
        for name, values in arrays.items():
            values[:] = state.vector(name, least=-math.inf if name in self.estimator.signed else 0)
        try:
            with np.errstate(all="raise", under="ignore"):  # numbers that contradict each other, such as a count of 0
                estimates = (self.estimator.losses, self.estimator.standard_errors)
        except FloatingPointError as error:
            raise OptionError("state: estimator", "no losses can be computed from it") from error
        if any(values is not None and np.isnan(values).any() for values in estimates):
            raise OptionError("state: estimator", "no losses can be computed from it")

    def _respond(self) -> None:
        if not self.estimator.seen[self.groups.p > 0].any():
            return
        caps = self.caps.upper(self.groups, self._passes, self.intervals)
        q = self._next(caps)
        self._moved = self._moved or not np.array_equal(q, self._q)
        self._q = q

    def _next(self, caps: Vector | None) -> Vector:
        """The response of the rule; weaker if noise matters and is known."""
        errors = self.estimator.standard_errors
        if self.noise is None or errors is None:
            return self.rule.respond(self._q, self._excess(self.estimator.seen), caps)
        known = self.estimator.seen & np.isfinite(errors)
        if not known[self.groups.p > 0].all():
            self._say_unknown(known)
        if not known[self.groups.p > 0].any():
            return self.rule.respond(self._q, self._excess(self.estimator.seen), caps)
        errors = with_rounding(np.where(known, errors, 0.0), self.estimator.losses)
        return self.noise.respond(self._q, self._excess(known), errors, caps)

    def _say_unknown(self, known: NDArray[np.bool_]) -> None:
        if self._said_unknown:
            return
        self._said_unknown = True
        names = [name for name, is_known in zip(self.groups.names, known, strict=True) if not is_known]
        effect = "it is treated as average" if known.any() else "the mixture follows its loss as if it had no noise"
        LOG.warning("%s: fewer than two observations in an interval; its noise is unknown, so %s", names[0], effect)

    def _excess(self, seen: NDArray[np.bool_]) -> Vector:
        """Losses minus baselines; groups not observed, or not often enough, get the mean excess of the others."""
        losses = self.estimator.losses
        excess = losses - self.baseline
        if self.drop_negative_baseline and excess[seen].max() < 0:  # as in the released code; not needed otherwise
            excess = losses
        weight = self.rule.centre[seen]
        mean = dot(weight, excess[seen]) / weight.sum() if weight.any() else excess[seen].mean()
        return np.asarray(np.where(seen, excess, mean))
