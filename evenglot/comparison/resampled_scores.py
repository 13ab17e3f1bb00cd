"""Scores of several runs: on the test sets, and on bootstrap samples of the test sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenglot.comparison.bootstrap import sampled_scores, samples_for, sentences_of
from evenglot.comparison.scored_run import ScoredRun
from evenglot.comparison.seed_variance import Label
from evenglot.scoring.metrics import METRICS, Numbers


@dataclass(frozen=True, eq=False)
class ResampledScores:
    """Runs scored on the same sentences. The last axes of arrays are (directions, runs), in the order given here."""

    runs: tuple[ScoredRun, ...]

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Row and seed of every run."""
        return tuple((run.row, run.seed) for run in self.runs)

    @cached_property
    def directions(self) -> list[str]:
        """Directions that all runs have in common."""
        return sorted(set.intersection(*(set(run.statistics.counts) for run in self.runs)))

    @cached_property
    def metrics(self) -> list[str]:
        """Metrics that every run has for every direction, with the same signature."""
        return [
            metric
            for metric in METRICS
            if all(metric in run.statistics.counts[name] for run in self.runs for name in self.directions)
            and len({run.signature.get(metric) for run in self.runs}) == 1
        ]

    @cached_property
    def lines(self) -> dict[str, int]:
        """Number of test sentences per direction."""
        counts = self.runs[0].statistics.counts
        return {name: len(counts[name][self.metrics[0]]) for name in self.directions}

    @property
    def samples(self) -> int:
        """Number of bootstrap samples."""
        return samples_for(len(self.directions))

    @cached_property
    def observed(self) -> dict[str, Numbers]:
        """Scores on the whole test sets, by metric: (directions, runs)."""
        return {
            metric: np.array([[run.score(metric, name) for run in self.runs] for name in self.directions])
            for metric in self.metrics
        }

    @cached_property
    def sampled(self) -> dict[str, Numbers]:
        """Scores on the samples, by metric: (samples, directions, runs). All runs share the drawn sentences."""
        shape = (self.samples, len(self.directions), len(self.runs))
        found = {metric: np.empty(shape) for metric in self.metrics}
        for place, name in enumerate(self.directions):  # outer loop, since the array of drawn sentences is large
            references = self.runs[0].statistics.references[name]
            sentences = sentences_of(references, self.lines[name], self.samples)
            for metric in self.metrics:
                for column, run in enumerate(self.runs):
                    counts = run.statistics.counts[name][metric]
                    found[metric][:, place, column] = sampled_scores(METRICS[metric], counts, sentences)
        return found
