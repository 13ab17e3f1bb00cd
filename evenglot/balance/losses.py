"""Running loss of each group, from sums and counts. Groups not in a batch are left alone, never taken for zero."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from evenglot.robust.validate import OptionError, Vector, number

Start = Literal["first", "zero", "bias-corrected"]


class Estimator(Protocol):
    """Observations in, one number for each group out."""

    of_batch_means: bool  # does it average the means of updates, however many tokens of a group each had?

    @property
    def losses(self) -> Vector:
        """The estimate for each group; 0 where `seen` is False."""

    @property
    def seen(self) -> NDArray[np.bool_]:
        """For which groups is there anything to go by?"""

    def observe(self, sums: Vector, counts: Vector) -> None:
        """One optimizer step: summed loss and count of each group; count 0 means not in this batch."""

    def end_interval(self) -> None:
        """An interval is over, and the mixture for the next has been chosen."""

    def arrays(self) -> dict[str, Vector]:
        """The state: one or more vectors over groups. What is returned here is saved and loaded in place."""


class EMA:
    """Exponential moving average of batch means: L <- (1 - weight) L + weight (sum / count), once a step.

    The first step starts it at the first mean (`first`), at 0 (`zero`: the paper and its code, biased low by the factor
    1 - (1 - weight)^t after t observations), or at 0 with that bias divided out (`bias-corrected`). `reset` forgets
    everything at the end of an interval, as the released code does for TED.
    """

    of_batch_means = True

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
        """Groups observed since the start (or the last reset)."""
        return self._steps > 0

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Move the average of every group present towards its mean in this step."""
        present = counts > 0
        weight = np.where((self._steps == 0) & (self.start == "first"), 1.0, self.weight)[present]
        self._average[present] += weight * (sums[present] / counts[present] - self._average[present])
        self._steps[present] += 1

    def end_interval(self) -> None:
        """Forget, if told to."""
        if self.reset:
            self._average[:] = 0
            self._steps[:] = 0

    def arrays(self) -> dict[str, Vector]:
        """Averages and number of observations."""
        return {"average": self._average, "steps": self._steps}


class LatestBatch(EMA):
    """The loss in the latest batch; for groups that were not in it, their moving average."""

    def __init__(self, size: int, weight: float = 0.1) -> None:
        super().__init__(size, weight, start="first")
        self._latest = np.zeros(size)

    @property
    def losses(self) -> Vector:
        """Batch means where there are any, running means elsewhere."""
        return self._latest.copy()

    def observe(self, sums: Vector, counts: Vector) -> None:
        """Remember this batch, and the running mean of what it lacks."""
        super().observe(sums, counts)
        self._latest[:] = self._average
        np.divide(sums, counts, out=self._latest, where=counts > 0)

    def arrays(self) -> dict[str, Vector]:
        """As the moving average, and the latest values."""
        return {**super().arrays(), "latest": self._latest}


class TokenEMA:
    """Exponential means of a group's sums and of its counts, one divided by the other: all tokens count alike.

    Batches hold sentences of like length, and a loss depends on length. A mean of batch means weighs a batch with one
    sentence of a group as much as one with fifty, and can be off by more than groups differ; unless an update has many
    batches, whose lengths differ. Both means begin at 0, which cancels.
    """

    of_batch_means = False

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
        """Move both means of every group present; the others keep theirs, however long they are away."""
        present = counts > 0
        self._sum[present] += self.weight * (sums - self._sum)[present]
        self._count[present] += self.weight * (counts - self._count)[present]

    def end_interval(self) -> None:
        """Nothing is forgotten."""

    def arrays(self) -> dict[str, Vector]:
        """Both means."""
        return {"sum": self._sum, "count": self._count}


class IntervalMean:
    """Mean loss over the interval, sum of sums / sum of counts: the estimate with the least noise.

    A group not seen in an interval keeps the value of the one before. `standard_errors` treats steps as the sampling
    units (a ratio estimator over clusters), so that batches of similar sentences do not feign precision.
    """

    of_batch_means = False

    def __init__(self, size: int) -> None:
        self._moments = {name: np.zeros(size) for name in ("steps", "sum", "count", "sum2", "count2", "sum_count")}
        self._before = np.zeros(size)
        self._seen_before = np.zeros(size)

    @property
    def losses(self) -> Vector:
        """Means of this interval, or of the last one in which the group was seen."""
        mean = self._before.copy()
        np.divide(self._moments["sum"], self._moments["count"], out=mean, where=self._moments["count"] > 0)
        return mean

    @property
    def standard_errors(self) -> Vector:
        """Standard error of each mean of this interval; infinite with fewer than two steps."""
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
        """Add this step's sums, counts and their products."""
        added = {"steps": counts > 0, "sum": sums, "count": counts}
        added |= {"sum2": sums**2, "count2": counts**2, "sum_count": sums * counts}
        for name, values in added.items():
            self._moments[name] += np.where(counts > 0, values, 0)

    def end_interval(self) -> None:
        """Keep the means, start counting anew."""
        self._before[:], self._seen_before[:] = self.losses, self.seen
        for moment in self._moments.values():
            moment[:] = 0

    def arrays(self) -> dict[str, Vector]:
        """Everything counted in this interval, and the last means."""
        return {**self._moments, "before": self._before, "seen_before": self._seen_before}
