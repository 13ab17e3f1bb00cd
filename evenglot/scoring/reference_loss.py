"""Loss of a model on each reference: the counts of the metric `loss`."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from evenglot.batches.load import collate
from evenglot.corpus.store import Store
from evenglot.model.interface import TranslationModel
from evenglot.model.loss import batch_loss
from evenglot.scoring.metrics import Counts
from evenglot.sequences import ParallelSequences

SENTENCES_AT_ONCE = 64


def reference_losses(model: TranslationModel, store: Store, name: str, split: str) -> Counts:
    """-log p in nats and number of characters of each reference.

    Both are 0 for pairs longer than the model's maximum, so that they do not count.
    """
    corpus = store.corpus(name, split)
    characters = torch.from_numpy(store.tokenizers.characters())
    device = next(model.parameters()).device
    model.eval()
    found = np.zeros((len(corpus), 2))
    by_length = np.argsort(corpus.target.lengths, kind="stable")
    fitting = by_length[~too_long(model, corpus)[by_length]]
    for rows in np.array_split(fitting, max(1, len(fitting) // SENTENCES_AT_ONCE)) if len(fitting) else ():
        batch = collate([corpus], np.zeros(len(rows), dtype=np.int32), rows, model.symbols.pad)
        with torch.inference_mode():
            losses = batch_loss(model, batch.to(device), torch.zeros(len(rows), device=device), smoothing=0.0).sums
        found[rows, 0] = losses.cpu().numpy()
        found[rows, 1] = characters[batch.target].sum(1).numpy()
    return found


def too_long(model: TranslationModel, corpus: ParallelSequences) -> NDArray[np.bool_]:
    """Mask of the pairs with more subwords than the model has positions."""
    longest = np.maximum(corpus.source.lengths, corpus.target.lengths)
    return np.asarray(longest > model.max_positions)
