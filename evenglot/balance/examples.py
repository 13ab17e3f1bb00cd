"""FastDRO (Levy et al. 2020): the data as they are, but inside each batch the examples with large losses count more.

The batch is where the adversary plays: there is no mixture of groups and no state. The training loop gathers the losses
of all examples of an update, asks `example_weights`, and trains on the sum of weight * loss.
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
    """Sample proportionally, and give the sentences of a batch with large losses more weight (FastDRO)."""

    needs = Needs(example_weights=True)
    baseline: Vector

    def __init__(
        self,
        groups: Groups,
        *,
        rho: Annotated[float, Option("Radius of the chi-square ball around equal weights of a batch.", ge=0)] = 1.0,
        alpha: Annotated[
            float | None, Option("Instead of the ball: the worst share of each batch; null: the ball.", ge=0, le=1)
        ] = None,
        penalty: Annotated[
            float, Option("Weight of a penalty on the divergence (KL with alpha), which smooths the weights.", ge=0)
        ] = 0.0,
        baseline: BaselineLosses = None,
    ) -> None:
        super().__init__(groups)
        self.rho = number(rho, "rho", 0)
        self.alpha = None if alpha is None else number(alpha, "alpha", 0, 1)
        self.penalty = number(penalty, "penalty", 0)
        self.baseline = baseline_vector(baseline, groups)

    def example_weights(self, losses: ArrayLike, names: Sequence[str]) -> Vector:
        """Weights that sum to 1, for the mean token losses of the examples of a batch and the groups they are of."""
        values = vector(losses, "losses", len(names))
        baseline = self.groups.keyed(self.baseline)
        if unknown := sorted(set(names) - set(baseline)):
            raise OptionError("names", f"unknown group {unknown[0]!r}; known are {', '.join(baseline)}")
        excess = values - np.array([baseline[name] for name in names])
        if self.alpha is None:
            return chi_square_weights(excess, self.rho, self.penalty)
        return cvar_weights(excess, self.alpha, self.penalty)


def describe_fastdro(**options: Any) -> Description:
    """FastDRO weights examples; the mixture of groups stays."""
    return Description(FastDRO.needs)
