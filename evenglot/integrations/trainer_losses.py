"""Losses of groups, summed between two logs of a trainer or over an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from evenglot.integrations.torch import means


@dataclass
class LossSums:
    """Sums and counts of losses by group."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, sums: Mapping[str, float], counts: Mapping[str, float]) -> None:
        """Add those of an update."""
        self.sums = {name: self.sums.get(name, 0.0) + sums[name] for name in sums}
        self.counts = {name: self.counts.get(name, 0.0) + counts[name] for name in counts}

    @staticmethod
    def of_rows(rows: Sequence[Tensor], names: Sequence[str]) -> LossSums:
        """Of examples, each with the id of its group, its loss sum and count."""
        totals = torch.zeros(2, len(names), dtype=torch.float64)
        for each in rows:
            totals.index_add_(1, each[:, 0].long(), each[:, 1:].T)
        sums, counts = totals.tolist()
        return LossSums(dict(zip(names, sums, strict=True)), dict(zip(names, counts, strict=True)))

    @property
    def means(self) -> dict[str, float]:
        """The mean loss of every group that has any."""
        return means(self.sums, self.counts)

    @property
    def mean(self) -> float:
        """The mean of all losses."""
        return sum(self.sums.values()) / sum(self.counts.values())


def by_example(values: Tensor) -> Tensor:
    """One sum for each example, in float64."""
    return values.double().sum(dim=1) if values.ndim == 2 else values.double()
