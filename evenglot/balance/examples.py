"""FastDRO (Levy et al. 2020): proportional sampling, with larger weights for the examples of a batch with large losses.

The worst case is taken over the examples of each batch, so the mixture of groups is constant and there is no state. The
training loop collects the losses of all examples of an update, calls `example_weights`, and minimizes the sum of
weight * loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from evenglot.balance.balancer import Balancer
from evenglot.balance.baseline import baseline_vector
from evenglot.balance.description import Description, Needs
from evenglot.balance.groups import Groups
from evenglot.balance.options import BaselineLosses, Option
from evenglot.robust.batch import chi_square_weights, cvar_weights
from evenglot.robust.validate import OptionError, Vector, number, vector


class FastDRO(Balancer):
    """Sample proportionally, and upweight the sentences of a batch with large losses (FastDRO)."""

    needs = Needs(example_weights=True)
    baseline: Vector

    def __init__(
        self,
        groups: Groups,
        *,
        rho: Annotated[float, Option("Radius of the chi-square ball around uniform weights of a batch.", ge=0)] = 1.0,
        alpha: Annotated[
            float | None, Option("Use CVaR over this share of each batch; null: use the ball.", ge=0, le=1)
        ] = None,
        penalty: Annotated[
            float, Option("Weight of a divergence penalty (KL if alpha is set), which smooths the weights.", ge=0)
        ] = 0.0,
        baseline: BaselineLosses = None,
    ) -> None:
        super().__init__(groups)
        self.rho = number(rho, "rho", 0)
        self.alpha = None if alpha is None else number(alpha, "alpha", 0, 1)
        self.penalty = number(penalty, "penalty", 0)
        self.baseline = baseline_vector(baseline, groups)

    def example_weights(self, losses: ArrayLike, names: Sequence[str]) -> Vector:
        """Weights of the examples of a batch, summing to 1, from their mean token losses and their groups."""
        values = vector(losses, "losses", len(names))
        baseline = self.groups.keyed(self.baseline)
        if unknown := sorted(set(names) - set(baseline)):
            raise OptionError("names", f"unknown group {unknown[0]!r}; known: {', '.join(baseline)}")
        excess = values - np.array([baseline[name] for name in names])
        if self.alpha is None:
            return chi_square_weights(excess, self.rho, self.penalty)
        return cvar_weights(excess, self.alpha, self.penalty)


def describe_fastdro(**options: Any) -> Description:
    """FastDRO weights examples; its mixture of groups is constant."""
    return Description(FastDRO.needs)
