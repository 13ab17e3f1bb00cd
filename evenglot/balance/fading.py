"""A mixture between proportional and uniform whose upsampling fades as a corpus is repeated.

Repeating a text is worth less each time: by the fit of Muennighoff et al. (2023), the value of a further pass decays as
exp(-passes / 15). So a small corpus is upsampled while it is new to the model, and sampled in proportion to its size
once it has been repeated many times, in whatever number of updates that takes. No run length, reference run or
validation set is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenglot.balance.balancer import Balancer
from evenglot.balance.description import Description
from evenglot.balance.groups import Groups
from evenglot.balance.saved import SavedState
from evenglot.balance.static import mix
from evenglot.robust.validate import Vector, number


def describe_mix(*, fade: float | None, **others: Any) -> Description:
    """Describe `mix`: constant, unless it fades."""
    return Description(cadence="never" if fade is None else "interval")


class FadingMix(Balancer):
    """q_i = p_i + w_i (m_i - p_i) for the groups that m = mix(p, alpha) upsamples; w_i = exp(-passes_i / fade).

    What they gain is taken from the others in proportion to p_i - m_i.
    """

    def __init__(self, groups: Groups, alpha: float, fade: float) -> None:
        self.fade = number(fade, "fade", 0, above=True)
        self._full = mix(groups.p, alpha) - groups.p
        self._passes = np.zeros(len(groups.names))
        super().__init__(groups)
        self._q = self._faded()
        self.cadence = describe_mix(fade=fade).cadence

    @property
    def passes(self) -> dict[str, float]:
        """Number of passes over each corpus so far."""
        return self.groups.keyed(self._passes)

    def extremes(self, group: str) -> list[Vector]:
        """The mixture at the start, and the data proportions, which it approaches."""
        return [self.groups.p + self._full, self.groups.p]

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """End an interval: count passes, and let the upsampling fade."""
        if drawn is None:
            drawn = {name: self.groups.sizes.sum() * share for name, share in self.mixture.sample.items()}
        self._passes += self.groups.passes(drawn)
        super().update(drawn)
        before, self._q = self._q, self._faded()
        return not np.array_equal(before, self._q)

    def state_dict(self) -> dict[str, Any]:
        """Passes, besides the common state."""
        return {**super().state_dict(), "passes": self.passes}

    def _load(self, state: SavedState) -> None:
        super()._load(state)
        self._passes = state.vector("passes", least=0)

    def _faded(self) -> Vector:
        gain = np.exp(-self._passes / self.fade) * np.maximum(self._full, 0)
        loss = np.maximum(-self._full, 0)
        return np.asarray(self.groups.p + gain - (loss * (gain.sum() / loss.sum()) if loss.any() else 0))
