"""Two adaptive strategies that were tried as a default; not part of the package.

    python -m experiments.adaptive train conf.yaml --set balance='{strategy: probing}' ...    # as `evenglot`, with both

Both need validation losses after every interval, and no reference run.

`probing`, an experiment inside the run: the mixture is `mix:alpha`. Intervals come in pairs, one at alpha + delta and
one at alpha - delta, in random order; alpha then moves towards the one in which the mean validation loss fell more.

`giving-back`, held-out progress instead of held-out level: small corpora start at a flat mixture, and each gives its
upsampling back as far as its validation loss falls more slowly than the average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from evenglot.balance import STRATEGIES, Balancer, Description, Needs, Signal, Strategy
from evenglot.balance.balancer import loss_vectors
from evenglot.balance.description import Split
from evenglot.balance.groups import Groups
from evenglot.balance.options import Option
from evenglot.balance.saved import SavedState
from evenglot.balance.static import mix
from evenglot.cli import main
from evenglot.robust.validate import Vector
from evenglot.seeding import generator


def describe_validated(**options: Any) -> Description:
    """Describe a strategy that changes the mixture after every interval, by validation losses."""
    return Description(Needs(losses=Signal("valid")), cadence="interval")


class _Validated(Balancer):
    """Notes the validation losses of every interval; `_changed` is called from the second one on."""

    def __init__(self, groups: Groups, q: Vector) -> None:
        super().__init__(groups, q)
        self.needs, self.cadence = describe_validated().needs, describe_validated().cadence
        self._before = np.zeros(len(groups.names))  # validation losses at the start of the interval; 0: not known
        self._now = np.zeros(len(groups.names))

    @property
    def losses(self) -> dict[str, float | None]:
        """The latest validation losses."""
        return {name: loss or None for name, loss in self.groups.keyed(self._now).items()}

    def observe(self, loss_sums: Mapping[str, float], counts: Mapping[str, float], split: Split = "train") -> None:
        """Take the validation losses."""
        if split == "valid":
            sums, numbers = loss_vectors(self.groups, loss_sums, counts)
            self._now = np.divide(sums, numbers, out=self._now.copy(), where=numbers > 0)

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """Choose the next mixture by how far the losses fell."""
        super().update(drawn)
        old = self._q
        if self._before.any():
            self._changed(self._before - self._now)
        self._before, self._q = self._now, self._next()
        return not np.array_equal(old, self._q)

    def _changed(self, falls: Vector) -> None:
        raise NotImplementedError

    def _next(self) -> Vector:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Losses, besides the common state."""
        losses = {"before": self.groups.keyed(self._before), "now": self.groups.keyed(self._now)}
        return {**super().state_dict(), **losses}

    def _load(self, state: SavedState) -> None:
        super()._load(state)
        self._before, self._now = state.vector("before", least=0), state.vector("now", least=0)


class Probing(_Validated):
    """The mixture `mix:alpha ± delta`; alpha follows the measured slope of the mean validation loss."""

    def __init__(
        self,
        groups: Groups,
        *,
        alpha: Annotated[float, Option("Weight of the uniform mixture at the start.", ge=0, le=1)] = 0.5,
        delta: Annotated[float, Option("Distance of the two mixtures that are compared.", ge=0, le=1)] = 0.25,
        step: Annotated[float, Option("Change of alpha by a difference of usual size.", ge=0)] = 0.1,
    ) -> None:
        self._alpha, self._delta, self._step = alpha, delta, step
        self._fall = 0.0  # in the first interval of a pair
        self._squares = 0.0  # of the differences within pairs, summed
        self._pairs = 0
        super().__init__(groups, mix(groups.p, min(alpha + delta * self._sign(0), 1)))

    def _sign(self, interval: int) -> int:
        first = 1 if generator(0, "probing", interval // 2).random() < 0.5 else -1
        return first if interval % 2 == 0 else -first

    def _changed(self, falls: Vector) -> None:
        place, fall = self.intervals - 1, float(falls.mean())  # of the interval that has ended
        if place % 2 == 0:
            self._fall = fall
            return
        gain = self._sign(place) * (fall - self._fall)  # of more upsampling
        self._squares, self._pairs = self._squares + gain**2, self._pairs + 1
        usual = (self._squares / self._pairs) ** 0.5
        self._alpha = float(np.clip(self._alpha + self._step * (gain / usual if usual else 0), 0, 1))

    def _next(self) -> Vector:
        return mix(self.groups.p, float(np.clip(self._alpha + self._delta * self._sign(self.intervals), 0, 1)))

    def state_dict(self) -> dict[str, Any]:
        """alpha and what it follows, besides the common state."""
        more = {"alpha": self._alpha, "fall": self._fall, "squares": self._squares, "pairs": self._pairs}
        return {**super().state_dict(), **more}

    def _load(self, state: SavedState) -> None:
        super()._load(state)
        self._alpha, self._fall = float(state["alpha"]), float(state["fall"])
        self._squares, self._pairs = float(state["squares"]), state.count("pairs")


class GivingBack(_Validated):
    """q_i = p_i + g_i (start_i - p_i) for the corpora that the start upsamples; the others share the rest.

    g_i is the fall of the validation loss of i over the mean fall of all, within [0, 1]; falls are moving averages.
    """

    def __init__(
        self,
        groups: Groups,
        *,
        alpha: Annotated[float, Option("Weight of the uniform mixture at the start.", ge=0, le=1)] = 0.75,
        ema: Annotated[float, Option("Weight of the newest interval in the moving averages.", gt=0, le=1)] = 0.1,
    ) -> None:
        self._start, self._ema = mix(groups.p, alpha), ema
        self._falls = np.zeros(len(groups.names))
        super().__init__(groups, self._start)

    def _changed(self, falls: Vector) -> None:
        self._falls = falls if not self._falls.any() else (1 - self._ema) * self._falls + self._ema * falls

    def _next(self) -> Vector:
        p, mean = self.groups.p, float(self._falls.mean())
        kept = np.clip(self._falls / mean, 0, 1) if mean > 0 else np.zeros_like(p)
        more = self._start - p
        gain, loss = kept * np.maximum(more, 0), np.maximum(-more, 0)
        if not self._falls.any():
            return self._start
        return np.asarray(p + gain - (loss * (gain.sum() / loss.sum()) if loss.any() else 0))

    def state_dict(self) -> dict[str, Any]:
        """The average falls, besides the common state."""
        return {**super().state_dict(), "falls": self.groups.keyed(self._falls)}

    def _load(self, state: SavedState) -> None:
        super()._load(state)
        self._falls = state.vector("falls")


STRATEGIES["probing"] = Strategy(Probing, describe_validated)
STRATEGIES["giving-back"] = Strategy(GivingBack, describe_validated)

if __name__ == "__main__":
    main()
