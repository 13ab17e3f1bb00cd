"""Scores on samples: those of each direction and run alone, also where directions share their references."""

from dataclasses import replace
from zlib import crc32

import numpy as np

from evenglot.comparison.bootstrap import SEED, drawn_sentences, sampled_scores
from evenglot.comparison.resampled_scores import ResampledScores
from evenglot.scoring.metrics import METRICS
from evenglot.scoring.sentence_statistics import SentenceStatistics
from tests.comparison.test_compare import SENTENCES, result


def test_samples_are_those_of_each_direction_and_run_alone():
    references = {"aa-en": "english", "bb-en": "others", "cc-en": "english"}
    runs = [result(row, quality) for row, quality in (("erm", 0.4), ("chi", 0.5))]
    runs = [replace(run, statistics=SentenceStatistics(run.statistics.counts, references)) for run in runs]
    found = ResampledScores(tuple(runs))
    for place, name in enumerate(found.directions):
        drawn = drawn_sentences(SENTENCES, found.samples, [SEED, crc32(references[name].encode())])
        for column, run in enumerate(runs):
            for metric in found.metrics:
                alone = sampled_scores(METRICS[metric], run.statistics.counts[name][metric], drawn)
                np.testing.assert_allclose(found.sampled[metric][:, place, column], alone, rtol=1e-12)
