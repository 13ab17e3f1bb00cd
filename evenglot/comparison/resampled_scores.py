"""Scores of several runs: on the test sets, and on bootstrap samples of the test sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenglot.comparison.bootstrap import sampled_scores, samples_for, sentences_of
from evenglot.comparison.scored_run import ScoredRun
from evenglot.comparison.seed_variance import Label
from evenglot.scoring.metrics import METRICS, Counts, Numbers


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
    def places(self) -> dict[str, int]:
        """The index of each direction in arrays."""
        return {name: place for place, name in enumerate(self.directions)}

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
        # In memory, the samples of a run in a direction are adjacent, since they are written and read together.
        shape = (len(self.directions), len(self.runs), self.samples)
        found = {metric: np.empty(shape) for metric in self.metrics}
        for (references, lines), names in self._by_test_set().items():
            first = 0
            for sentences in sentences_of(references, lines, self.samples):
                block = slice(first, first := first + len(sentences))
                for metric in self.metrics:
                    for name in names:
                        scores = sampled_scores(METRICS[metric], self._counts(metric, name), sentences)
                        found[metric][self.places[name], :, block] = scores.T
        return {metric: np.moveaxis(scores, -1, 0) for metric, scores in found.items()}

    def _by_test_set(self) -> dict[tuple[str, int], list[str]]:
        """Directions by references and their number: the same sentences are drawn for all of a multi-parallel set."""
        found: dict[tuple[str, int], list[str]] = {}
        for name in self.directions:
            found.setdefault((self.runs[0].statistics.references[name], self.lines[name]), []).append(name)
        return found

    def _counts(self, metric: str, name: str) -> Counts:
        """Counts of all runs, (sentences, runs, counts)."""
        return np.stack([run.statistics.counts[name][metric] for run in self.runs], axis=1)
