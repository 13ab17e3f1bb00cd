"""From source sentences to target sentences: greedy search with a key/value cache."""

from __future__ import annotations

import torch
from torch import Tensor

from evenglot.model.transformer import END, PAD, Cache, Memory, Transformer


@torch.inference_mode()
def greedy(model: Transformer, source: Tensor, source_lengths: Tensor, max_length: int | Tensor) -> list[list[int]]:
    """Take the best next piece until </s>: the pieces of each target sentence, without </s>.

    `max_length`: how many pieces a sentence gets at most, one number for all or one for each (B,); in any case not more
    than the model has positions. Sentences that are finished leave the batch. Call model.eval() before.
    """
    limits = _limits(max_length, len(source), model.shape.max_positions)
    memory = model.encode(source, source_lengths)
    cache = model.start(memory)
    pieces = source.new_full((len(source),), END)
    translations: list[list[int]] = [[] for _ in limits]
    sentences = list(range(len(source)))  # row r of pieces, memory and cache belongs to sentences[r]
    while sentences:
        logits, cache = next_logits(model, pieces, memory, cache)
        pieces = logits.argmax(1)
        unfinished = []
        for row, (sentence, piece) in enumerate(zip(sentences, pieces.tolist(), strict=True)):
            if piece != END:
                translations[sentence].append(piece)
                if len(translations[sentence]) < limits[sentence]:
                    unfinished.append(row)
        if len(unfinished) < len(sentences):
            rows = torch.tensor(unfinished, dtype=torch.int64, device=source.device)
            sentences = [sentences[row] for row in unfinished]
            pieces, memory, cache = pieces[rows], memory.select(rows), cache.select(rows)
    return translations


def next_logits(model: Transformer, pieces: Tensor, memory: Memory, cache: Cache) -> tuple[Tensor, Cache]:
    """See one more piece (B,) of each sentence: logits (B, V) of the one after it, and the longer cache.

    Padding is ruled out: the model has it among its pieces, but never saw it as one to predict.
    """
    hidden, cache = model.step(pieces, memory, cache)
    logits = hidden @ model.output_embedding.T
    logits[:, PAD] = -torch.inf
    return logits, cache


def _limits(max_length: int | Tensor, sentences: int, max_positions: int) -> list[int]:
    limits: list[int] = torch.as_tensor(max_length).expand(sentences).clamp(max=max_positions).tolist()
    if min(limits, default=1) < 1:
        raise ValueError(f"max_length: expected at least 1, got {min(limits)}")
    return limits
