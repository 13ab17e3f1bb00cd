"""Estimators of the running loss of each group. Groups that are missing from a batch keep their estimate."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from evenglot.robust.validate import OptionError, Vector, number

Start = Literal["first", "zero", "bias-corrected"]


class Estimator(Protocol):
    """Estimates the current loss of each group from observed sums and counts."""

    of_batch_means: bool  # True if it averages update means regardless of their token counts
    signed: frozenset[str]  # those of its arrays that can have negative values

    @property
    def standard_errors(self) -> Vector | None:
        """Standard error of each loss, infinite if unknown; None if the estimator has none."""

    @property
    def losses(self) -> Vector:
        """The estimate for each group; 0 where `seen` is False."""

    @property
    def seen(self) -> NDArray[np.bool_]:
        """True for groups that have an estimate."""

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Record one optimizer step: loss sum and count of each group; count 0 means not in the batch."""

    def end_interval(self) -> None:
        """Called at the end of an interval, after the mixture update."""

    def arrays(self) -> dict[str, Vector]:
        """The state: one or more vectors over groups, by name. Loading a state writes into these arrays."""


class EMA:
    """Exponential moving average of batch means: L <- (1 - weight) L + weight (sum / count), once per step.

    The initial value is the first mean (`first`), 0 (`zero`: as in the paper and its code, biased low by the factor
    1 - (1 - weight)^t after t observations), or 0 with that bias divided out (`bias-corrected`). `reset` discards the
    averages at the end of each interval, as the released code does for TED.
    """

    of_batch_means = True
    signed = frozenset({"average", "latest"})
    standard_errors = None

    def __init__(self, size: int, weight: float = 0.1, start: Start = "first", reset: bool = False) -> None:
        self.weight = number(weight, "ema", 0, 1, above=True)
        if start not in ("first", "zero", "bias-corrected"):
            raise OptionError("start", f"expected 'first', 'zero' or 'bias-corrected', got {start!r}")
        self.start, self.reset = start, reset
        self._average = np.zeros(size)
        self._steps = np.zeros(size)

    @property
    def losses(self) -> Vector:
        """The current averages."""
        if self.start != "bias-corrected":
            return self._average.copy()
        correction = 1 - (1 - self.weight) ** self._steps
        return np.divide(self._average, correction, out=np.zeros_like(correction), where=correction > 0)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Groups observed since the start or the last reset."""
        return self._steps > 0

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Update the average of every group in this batch."""
        present = counts > 0
        weight = np.where((self._steps == 0) & (self.start == "first"), 1.0, self.weight)[present]
        self._average[present] += weight * (sums[present] / counts[present] - self._average[present])
        self._steps[present] += 1

    def end_interval(self) -> None:
        """Reset the averages if `reset` is set."""
        if self.reset:
            self._average[:] = 0
            self._steps[:] = 0

    def arrays(self) -> dict[str, Vector]:
        """Averages and numbers of observations."""
        return {"average": self._average, "steps": self._steps}


class LatestBatch(EMA):
    """The loss in the latest batch, or the moving average for groups that are not in it."""

    def __init__(self, size: int, weight: float = 0.1) -> None:
        super().__init__(size, weight, start="first")
        self._latest = np.zeros(size)

    @property
    def losses(self) -> Vector:
        """Means of the latest batch, or moving averages for groups that are not in it."""
        return self._latest.copy()

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Update the averages, and store the means of this batch."""
        super().observe(sums, counts)
        self._latest[:] = self._average
        np.divide(sums, counts, out=self._latest, where=counts > 0)

    def arrays(self) -> dict[str, Vector]:
        """The arrays of the moving average, and the latest values."""
        return {**super().arrays(), "latest": self._latest}


class TokenEMA:
    """Ratio of the exponential moving averages of loss sums and of counts: every token has the same weight.

    Batches hold sentences of similar length, and the loss depends on length. A mean of batch means gives a batch with
    one sentence of a group the same weight as one with fifty; this bias can exceed the differences between groups,
    unless each update has many batches of different lengths. Both averages start at 0; the bias cancels in the ratio.
    """

    of_batch_means = False
    signed = frozenset({"sum"})
    standard_errors = None

    def __init__(self, size: int, weight: float = 0.1) -> None:
        self.weight = number(weight, "ema", 0, 1, above=True)
        self._sum = np.zeros(size)
        self._count = np.zeros(size)

    @property
    def losses(self) -> Vector:
        """The current ratios."""
        return np.divide(self._sum, self._count, out=np.zeros_like(self._sum), where=self.seen)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Groups observed since the start."""
        return self._count > 0

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Update both averages of every group in this batch; other groups keep theirs."""
        present = counts > 0
        self._sum[present] += self.weight * (sums - self._sum)[present]
        self._count[present] += self.weight * (counts - self._count)[present]

    def end_interval(self) -> None:
        """Keep all averages."""

    def arrays(self) -> dict[str, Vector]:
        """Both averages."""
        return {"sum": self._sum, "count": self._count}


class IntervalMean:
    """Mean loss over the interval, sum of sums / sum of counts: the estimate with the lowest variance.

    A group not observed in an interval keeps its previous value. `standard_errors` treats steps as sampling units (a
    ratio estimator over clusters), because the sentences of a batch are similar and not independent.
    """

    of_batch_means = False
    signed = frozenset({"sum", "sum_count", "before", "last_sum"})

    def __init__(self, size: int) -> None:
        self._moments = {name: np.zeros(size) for name in ("steps", "sum", "count", "sum2", "count2", "sum_count")}
        self._before = np.zeros(size)
        self._seen_before = np.zeros(size)

    @property
    def losses(self) -> Vector:
        """Means of this interval, or of the last one in which the group was observed."""
        mean = self._before.copy()
        np.divide(self._moments["sum"], self._moments["count"], out=mean, where=self._moments["count"] > 0)
        return mean

    @property
    def standard_errors(self) -> Vector:
        """Standard error of each mean of this interval; infinite for fewer than two steps."""
        moment, mean = self._moments, self.losses
        residual2 = moment["sum2"] - 2 * mean * moment["sum_count"] + mean**2 * moment["count2"]
        several = moment["steps"] > 1
        scale = np.where(several, moment["steps"] / np.maximum(moment["steps"] - 1, 1), 0)
        error = np.full_like(mean, np.inf)
        np.divide(np.sqrt(scale * np.maximum(residual2, 0)), moment["count"], out=error, where=several)
        return error

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Groups observed in this interval or an earlier one."""
        return (self._moments["count"] > 0) | (self._seen_before > 0)

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Add the sums and counts of this step, and their products."""
        added = {"steps": counts > 0, "sum": sums, "count": counts}
        added |= {"sum2": sums**2, "count2": counts**2, "sum_count": sums * counts}
        for name, values in added.items():
            self._moments[name] += np.where(counts > 0, values, 0)

    def end_interval(self) -> None:
        """Keep the means and clear the moments."""
        self._before[:], self._seen_before[:] = self.losses, self.seen
        for moment in self._moments.values():
            moment[:] = 0

    def arrays(self) -> dict[str, Vector]:
        """Moments of this interval, and the previous means."""
        return {**self._moments, "before": self._before, "seen_before": self._seen_before}


class TrendlessMean(IntervalMean):
    """The mean over the interval, with standard errors from the differences of successive steps.

    A loss that falls during the interval, as all do while the model learns, then hardly counts as noise. For steps of a
    group with counts c, c' and means x, x', let h = c c' / (c + c'). Then sum h^2 (x - x')^2 / (2 sum h^2) estimates
    the variance of x if it is the same in all steps. If it falls with 1 / c, the error is slightly too large.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._moments |= {name: np.zeros(size) for name in ("last_sum", "last_count", "pairs2", "difference2")}

    @property
    def standard_errors(self) -> Vector:
        """Standard error of each mean of this interval; infinite for fewer than two steps."""
        moment = self._moments
        several = moment["steps"] > 1
        variance = np.divide(
            moment["difference2"], 2 * moment["pairs2"], out=np.zeros_like(moment["count"]), where=several
        )
        error = np.full_like(variance, np.inf)
        np.divide(np.sqrt(variance * moment["count2"]), moment["count"], out=error, where=several)
        return error

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Add this step, and its difference to the step before in which a group was present."""
        super().observe(sums, counts)
        moment, present = self._moments, counts > 0
        before = moment["last_count"]
        both = present & (before > 0)
        difference = sums[both] * before[both] - moment["last_sum"][both] * counts[both]
        total = counts[both] + before[both]
        moment["pairs2"][both] += (counts[both] * before[both] / total) ** 2
        moment["difference2"][both] += (difference / total) ** 2
        moment["last_sum"][present], moment["last_count"][present] = sums[present], counts[present]
