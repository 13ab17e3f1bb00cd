"""Validation: loss and chrF per direction on held-out text, and the score that selects the best model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import sacrebleu
import torch

from evenglot.batches.draw import all_pairs
from evenglot.batches.load import collate, load
from evenglot.config import TrainSettings
from evenglot.corpus.store import Store
from evenglot.directions import parse
from evenglot.model.interface import TranslationModel
from evenglot.model.search import greedy
from evenglot.progress import Advance
from evenglot.sequences import ParallelSequences, Sequences
from evenglot.training.step import Observed, Step

NO_PAIRS = ParallelSequences(*(Sequences(np.empty(0, dtype=np.uint16), np.zeros(1, dtype=np.int64)) for _ in range(2)))
LONGEST_RATIO = 3  # a translation has at most 3 times the subwords of its source plus 10


@dataclass(frozen=True, eq=False)
class Validation:
    """Losses per direction and their aggregates: `pooled` over all tokens, `macro` over directions, and the `worst`."""

    seen: Observed
    loss: dict[str, float]
    loss_per_character: dict[str, float]
    chrf: dict[str, float]
    pooled: float
    macro: float
    worst: float
    score: float  # the one of these three that selects the best model


class Validator:
    """Validates on the directions that have validation text."""

    def __init__(self, step: Step, store: Store, budget: int, settings: TrainSettings) -> None:
        self.step, self.store, self.budget, self.settings = step, store, budget, settings
        self.names = [name for name in step.names if "valid" in store.splits(name) and len(store.corpus(name, "valid"))]
        self.corpora = {name: store.corpus(name, "valid") if name in self.names else NO_PAIRS for name in step.names}

    def validate(self) -> Validation:
        """Losses and, if enabled, chrF of greedy translations; the same on all processes."""
        seen = losses_of(self.step, self.corpora, self.budget)
        loss = {name: value for name, value in seen.means(self.step.names).items() if value is not None}
        per_character = {n: v for n, v in seen.means(self.step.names, "character").items() if v is not None}
        values = list(loss.values())
        chrf = self._chrf() if self.settings.chrf_sentences else {}
        result = {"pooled": seen.mean, "macro": sum(values) / len(values), "worst": max(values)}
        return Validation(seen, loss, per_character, chrf, **result, score=result[self.settings.select])

    def _chrf(self) -> dict[str, float]:
        """chrF per direction; the directions are distributed over the processes."""
        processes = self.step.processes
        scores = torch.zeros(len(self.names), dtype=torch.float64)
        model = self.step.mode.own_model()
        for i in range(processes.rank, len(self.names), processes.world):
            name = self.names[i]
            references = self.store.text(name, "valid", "target")[: self.settings.chrf_sentences]
            scores[i] = sacrebleu.corpus_chrf(self._translate(model, name, len(references)), [references]).score
        return dict(zip(self.names, processes.sum(scores).tolist(), strict=True))

    def _translate(self, model: TranslationModel, name: str, sentences: int) -> list[str]:
        corpus, tokenizers = self.corpora[name], self.store.tokenizers
        begin = tokenizers.begin(parse(name))
        device = self.step.processes.device
        model.eval()
        translations: list[str] = []
        rows = np.arange(sentences)
        size = max(1, self.budget // int(corpus.source.lengths[:sentences].max()))
        for first in range(0, sentences, size):
            pair = rows[first : first + size]
            batch = collate([corpus], np.zeros(len(pair), dtype=np.int32), pair, model.symbols.pad)
            longest = LONGEST_RATIO * batch.source_lengths + 10
            with self.step.processes.autocast():
                pieces = greedy(model, batch.source.to(device), batch.source_lengths, longest, begin)
            translations += tokenizers.decode(pieces)
        return translations


def losses_of(
    step: Step, corpora: Mapping[str, ParallelSequences], budget: int, advance: Advance | None = None
) -> Observed:
    """Losses on all pairs of these corpora, without dropout, computed by all processes. `advance` counts pairs."""
    processes = step.processes
    pairs = all_pairs({name: len(corpus) for name, corpus in corpora.items()})
    loader = load(
        corpora,
        pairs,
        budget=budget,
        pad=step.model.symbols.pad,
        micro_batches=processes.world,
        rank=processes.rank,
        world=processes.world,
    )
    seen = Observed.nothing(len(step.names))
    for _, batches in loader.iterate():
        seen += step.evaluate(batches)
        if advance is not None:
            advance(processes.world * sum(len(batch.direction) for batch in batches))
    return step.all_processes(seen)
