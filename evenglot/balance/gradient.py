"""MultiDDS-S (Wang et al. 2020): sample groups more whose training gradients align with validation gradients.

The balancer holds the scorer. The training loop computes the gradients, as specified in `needs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from evenglot.balance.balancer import Balancer
from evenglot.balance.description import Description, GradientProbe, Needs
from evenglot.balance.groups import Groups
from evenglot.balance.options import Option
from evenglot.balance.saved import ROUNDING, SavedState
from evenglot.robust.validate import OptionError, Vector, number

ADAM_BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8  # torch defaults, as in the reference implementation


def describe_multidds(*, every: int, probe_sentences: int, probe_tokens: int, **others: Any) -> Description:
    """MultiDDS needs gradients on training and validation data."""
    return Description(Needs(gradients=GradientProbe(every, probe_sentences, probe_tokens)), cadence="step")


class MultiDDS(Balancer):
    """Learn the mixture from the alignment of training and validation gradients (MultiDDS-S).

    P = softmax(psi) starts at the data proportions; after each probe, Adam steps on -sum_i R_i log P_i. R_i is the mean
    over validation groups of cos(validation gradient, training gradient of i). For positive rewards the steps lead
    towards P ~ R; with the reference settings a probe changes a logit by about 0.02.
    """

    def __init__(
        self,
        groups: Groups,
        *,
        learning_rate: Annotated[float, Option("Learning rate of the scorer.", ge=0)] = 1e-4,
        adam_steps: Annotated[int, Option("Number of Adam steps of the scorer after each probe.", ge=1)] = 200,
        every: Annotated[int, Option("Number of updates between gradient probes.", ge=1)] = 1000,
        probe_sentences: Annotated[int, Option("Maximum number of sentences per group in a probe.", ge=1)] = 8,
        probe_tokens: Annotated[int, Option("Maximum number of tokens per group in a probe.", ge=1)] = 1200,
    ) -> None:
        super().__init__(groups)
        self.learning_rate = number(learning_rate, "learning_rate", 0)
        self.adam_steps = int(number(adam_steps, "adam_steps", 1))
        description = describe_multidds(
            every=int(number(every, "every", 1)),
            probe_sentences=int(number(probe_sentences, "probe_sentences", 1)),
            probe_tokens=int(number(probe_tokens, "probe_tokens", 1)),
        )
        self.needs, self.cadence = description.needs, description.cadence
        self._admitted = groups.p > 0  # empty corpora are excluded: their logit would be -inf
        self._logits = np.log(groups.p, out=np.zeros_like(groups.p), where=self._admitted)
        self._mean, self._square = np.zeros_like(groups.p), np.zeros_like(groups.p)
        self._adam_count = 0
        self._moved = False

    def reward(self, rewards: Mapping[str, float]) -> None:
        """Train the scorer on these rewards for `adam_steps` steps; every group that has data needs a reward."""
        empty = {name: 0.0 for name, admitted in zip(self.groups.names, self._admitted, strict=True) if not admitted}
        reward = self.groups.vector({**empty, **rewards}, "rewards")[self._admitted]
        for _ in range(self.adam_steps):
            gradient = self._probabilities()[self._admitted] * reward.sum() - reward
            self._adam(gradient)
        self._q = self._probabilities()
        self._moved = True

    def update(self, drawn: Mapping[str, float] | None = None) -> bool:
        """End an interval; True if a probe changed the mixture since the previous one."""
        super().update(drawn)
        moved, self._moved = self._moved, False
        return moved

    def state_dict(self) -> dict[str, Any]:
        """Logits and Adam moments of the scorer, besides the common state."""
        vectors = {"logits": self._logits, "mean": self._mean, "square": self._square}
        scorer = {name: self.groups.keyed(values) for name, values in vectors.items()}
        return {**super().state_dict(), "scorer": scorer, "adam_count": self._adam_count, "moved": self._moved}

    def _load(self, state: SavedState) -> None:
        super()._load(state)
        scorer = state.section("scorer")
        self._logits, self._mean = scorer.vector("logits"), scorer.vector("mean")
        self._square = scorer.vector("square", least=0)
        self._adam_count, self._moved = state.count("adam_count"), state.flag("moved")
        if self._logits[~self._admitted].any() or np.abs(self._probabilities() - self._q).max() > ROUNDING:
            raise OptionError("state: scorer", "its logits do not belong to q")

    def _probabilities(self) -> Vector:
        weights = np.where(self._admitted, np.exp(self._logits - self._logits[self._admitted].max()), 0.0)
        return np.asarray(weights / weights.sum())

    def _adam(self, gradient: Vector) -> None:
        where, (beta1, beta2) = self._admitted, ADAM_BETAS
        self._adam_count += 1
        self._mean[where] += (1 - beta1) * (gradient - self._mean[where])
        self._square[where] += (1 - beta2) * (gradient**2 - self._square[where])
        mean = self._mean[where] / (1 - beta1**self._adam_count)
        square = self._square[where] / (1 - beta2**self._adam_count)
        self._logits[where] -= self.learning_rate * mean / (np.sqrt(square) + ADAM_EPSILON)
