"""Gradients on small samples of every group, for strategies that compare gradients (MultiDDS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from evenglot.balance import GradientProbe
from evenglot.batches.load import Batch, collate
from evenglot.directions import GroupMap
from evenglot.seeding import generator
from evenglot.sequences import ParallelSequences
from evenglot.training.step import Step

Corpora = Mapping[str, ParallelSequences]


def mean_cosines(
    step: Step, number: int, probe: GradientProbe, train: Corpora, valid: Corpora, groups: GroupMap
) -> dict[str, float]:
    """Per group, the mean over validation groups of cos(training gradient, validation gradient), after `number`
    updates; the argument of `Balancer.reward`.

    The mean of the cosines is the dot product with the mean of the unit validation gradients, so only this mean is
    kept in memory. All processes draw the same samples and use the result of the first.
    """
    towards = None
    validated = groups.members(_with_text(valid))
    for group, names in validated.items():
        gradient = step.gradient(number, _sample(step, valid, names, probe, "valid", group, number), "valid", group)
        unit = gradient / gradient.norm().clamp_min(1e-30) / len(validated)
        towards = unit if towards is None else towards + unit
    if towards is None:
        return {}
    cosines = {}
    for group, names in groups.members(_with_text(train)).items():
        gradient = step.gradient(number, _sample(step, train, names, probe, "train", group, number), "train", group)
        cosines[group] = float(gradient @ towards / gradient.norm().clamp_min(1e-30))
    values = torch.tensor(list(cosines.values()), dtype=torch.float64)
    agreed = step.processes.sum(values if step.processes.is_first else torch.zeros_like(values))
    return dict(zip(cosines, agreed.tolist(), strict=True))


def _with_text(corpora: Corpora) -> list[str]:
    return [name for name in sorted(corpora) if len(corpora[name])]


def _sample(step: Step, corpora: Corpora, names: Sequence[str], probe: GradientProbe, *key: int | str) -> Batch:
    """A sample of these directions together, limited by sentences and target tokens; at least one sentence."""
    ends = np.cumsum([len(corpora[name]) for name in names])
    drawn = generator(step.seed, "probe", *key).choice(ends[-1], min(probe.sentences, int(ends[-1])), replace=False)
    direction = np.searchsorted(ends, drawn, side="right")
    pair = drawn - (ends - [len(corpora[name]) for name in names])[direction]
    lengths = [corpora[names[d]].target.lengths[i] for d, i in zip(direction, pair, strict=True)]
    enough = max(1, int(np.searchsorted(np.cumsum(lengths), probe.tokens, side="right")))
    chosen = [corpora[name] for name in names]
    pad = step.model.symbols.pad
    return collate(chosen, direction[:enough].astype(np.int32), pair[:enough].astype(np.int64), pad)
