"""A mixture whose upsampling fades as a corpus is repeated.

Repeating a text is worth less each time: by the fit of Muennighoff et al. (2023), the value of a further pass decays as
exp(-passes / 15). So a small corpus is upsampled much while it is new to the model, and little once it has been
repeated many times, in whatever number of updates that takes. No run length, reference run or validation set is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenglot.balance.balancer import Balancer
from evenglot.balance.description import Description, Needs
from evenglot.balance.groups import Groups
from evenglot.balance.saved import SavedState
from evenglot.robust.validate import Vector, number


def describe_fade(**options: Any) -> Description:
    """Describe `fade`: with intervals of a pass, a small corpus would be repeated many times before it can fade."""
    return Description(needs=Needs(pairs_drawn=True), cadence="interval", gradual=True)


class Fading(Balancer):
    """q_i = e_i + exp(-passes_i / passes) (s_i - e_i) for the groups whose share is larger at the start s than at the
    end e; what they gain is taken from the others in proportion to e_i - s_i.
    """

    def __init__(self, groups: Groups, start: Vector, end: Vector, passes: float) -> None:
        self._fade = number(passes, "passes", 0, above=True)
        self._start, self._end = start, end
        self._passes = np.zeros(len(groups.names))
        super().__init__(groups)
        self._q = self._faded()
        description = describe_fade()
        self.needs, self.cadence = description.needs, description.cadence

    @property
    def passes(self) -> dict[str, float]:
        """Number of passes over each corpus so far."""
        return self.groups.keyed(self._passes)

    def extremes(self, group: str) -> list[Vector]:
        """The mixtures at the start and at the end, between which it moves."""
        return [self._start, self._end]

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
        more = self._start - self._end
        gain = np.exp(-self._passes / self._fade) * np.maximum(more, 0)
        loss = np.maximum(-more, 0)
        return np.asarray(self._end + gain - (loss * (gain.sum() / loss.sum()) if loss.any() else 0))
