"""The scores of runs side by side: as they are, and as they might be with other sentences in the test sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenglot.comparison.bootstrap import sampled_scores, samples_for, sentences_of
from evenglot.comparison.noise import Label
from evenglot.comparison.results import Result
from evenglot.scoring.statistics import METRICS, Numbers


@dataclass(frozen=True, eq=False)
class ScoredRuns:
    """Runs that were scored on the same sentences. Arrays end in (directions, runs), both in the order given here."""

    results: tuple[Result, ...]

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Row and seed of every run."""
        return tuple((result.row, result.seed) for result in self.results)

    @cached_property
    def directions(self) -> list[str]:
        """Those that all runs have."""
        return sorted(set.intersection(*(set(result.statistics.counts) for result in self.results)))

    @cached_property
    def metrics(self) -> list[str]:
        """Those that every run has for every direction, made in the same way."""
        return [
            metric
            for metric in METRICS
            if all(metric in result.statistics.counts[name] for result in self.results for name in self.directions)
            and len({result.signature.get(metric) for result in self.results}) == 1
        ]

    @cached_property
    def lines(self) -> dict[str, int]:
        """Test sentences of each direction."""
        counts = self.results[0].statistics.counts
        return {name: len(counts[name][self.metrics[0]]) for name in self.directions}

    @property
    def samples(self) -> int:
        """Of the bootstrap."""
        return samples_for(len(self.directions))

    @cached_property
    def observed(self) -> dict[str, Numbers]:
        """By metric."""
        return {
            metric: np.array([[result.score(metric, name) for result in self.results] for name in self.directions])
            for metric in self.metrics
        }

    @cached_property
    def sampled(self) -> dict[str, Numbers]:
        """By metric, in every sample: (samples, directions, runs). The sentences are the same for all runs."""
        shape = (self.samples, len(self.directions), len(self.results))
        found = {metric: np.empty(shape) for metric in self.metrics}
        for place, name in enumerate(self.directions):  # the outer loop: the drawn sentences are large
            references = self.results[0].statistics.references[name]
            sentences = sentences_of(references, self.lines[name], self.samples)
            for metric in self.metrics:
                for run, result in enumerate(self.results):
                    counts = result.statistics.counts[name][metric]
                    found[metric][:, place, run] = sampled_scores(METRICS[metric], counts, sentences)
        return found
