"""Greedy and beam search with a key/value cache, and the log-probability of a given translation.

All use the same distribution: the softmax over all subwords except padding, which is masked because the model is never
trained to predict it. An inference engine gives the same results if the bias of padding in its output layer is minus
infinity or a large negative number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evenglot.model.devices import sum_type
from evenglot.model.interface import Cache, Memory, TranslationModel
from evenglot.model.loss import CHUNK_LOGITS

PART = 16  # subwords; see _best


@dataclass(frozen=True)
class Hypothesis:
    """A translation with its model score."""

    pieces: list[int]  # subword ids without </s>
    score: float  # log_probability / length ** length_penalty, where the length includes </s>
    log_probability: float  # natural logarithm, summed over the subwords and </s>
    ended: bool  # False: truncated at max_length; score and log_probability do not include </s>


@torch.inference_mode()
def greedy(
    model: TranslationModel,
    source: Tensor,
    source_lengths: Tensor,
    max_length: int | Tensor = 200,
    begin: Sequence[int] | None = None,
) -> list[list[int]]:
    """Greedy search: the subword ids of each target sentence, without </s>.

    `max_length`: maximum number of subwords including </s>, one number for all sentences or one per sentence (B,),
    limited by the positions of the model. Finished sentences are removed from the batch. Call model.eval() before.
    `begin`: the first inputs of the decoder, not part of the translation; None: only </s>. Pretrained models may have
    others, such as a language code.
    """
    eos, begin = model.symbols.eos, _begin(model, begin)
    limits = _limits(max_length, len(source), model.max_positions - len(begin) + 1)
    memory = model.encode(source, source_lengths)
    cache = _started(model, memory, begin)
    pieces = torch.full((len(limits),), begin[-1], device=memory.states.device)
    said: list[list[int]] = [[] for _ in limits]
    sentences = list(range(len(limits)))  # row r of pieces, memory and cache belongs to sentences[r]
    while sentences:
        logits, cache = next_logits(model, pieces[:, None], memory, cache)
        pieces = logits[:, 0].argmax(1)
        for sentence, piece in zip(sentences, pieces.tolist(), strict=True):
            said[sentence].append(piece)
        unfinished = [row for row, s in enumerate(sentences) if said[s][-1] != eos and len(said[s]) < limits[s]]
        if len(unfinished) < len(sentences):
            rows = torch.tensor(unfinished, dtype=torch.int64, device=pieces.device)
            sentences = [sentences[row] for row in unfinished]
            pieces, memory, cache = pieces[rows], memory.select(rows), cache.select(rows)
    return [found[:-1] if found[-1] == eos else found for found in said]


@torch.inference_mode()
def beam_search(
    model: TranslationModel,
    source: Tensor,
    source_lengths: Tensor,
    *,
    beam: int = 5,
    length_penalty: float = 1.0,
    max_length: int | Tensor = 200,
    n_best: int = 1,
    patience: float = 1.0,
    begin: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Beam search: the `n_best` translations of each sentence, best score first.

    Scores are log-probabilities divided by length ** length_penalty. `max_length`, `begin` as in `greedy`. Call
    model.eval() before. Returns fewer than `n_best` only if no more exist within `max_length`. The search of a sentence
    stops when beam * patience hypotheses are finished. If </s> is often among the best next subwords, as in small
    models, these may all be too short, found before the best translation; `patience` 2 helps in this case.
    """
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best: expected 1 <= n_best <= beam, got n_best = {n_best} and beam = {beam}")
    if not 1 <= patience < math.inf:
        raise ValueError(f"patience: expected a finite number, 1 or more, got {patience}")
    begin = _begin(model, begin)
    limits = _limits(max_length, len(source), model.max_positions - len(begin) + 1)
    wanted = math.floor(beam * patience + 0.5)
    finished = [_Finished(limit, wanted, length_penalty, n_best, model.symbols.eos) for limit in limits]
    live = _nothing_said(model, model.encode(source, source_lengths), begin)
    # Same algorithm as CTranslate2 4 with min_decoding_length 0, so that exported models give the same output.
    # Candidates are the 2 * beam best continuations of a sentence's live hypotheses. Of these,
    # - those that end with </s> are finished if they are among the first `beam`, and dropped otherwise;
    # - the first `beam` without </s> stay live. There are enough, because each hypothesis has one continuation by </s>.
    # At max_length, the first `beam` are finished, with or without </s>.
    while live.sentences:
        candidates = _continue(model, live, 2 * beam)
        _collect(candidates, [finished[sentence] for sentence in live.sentences], beam)
        unfinished = [row for row, sentence in enumerate(live.sentences) if not finished[sentence].enough]
        if not unfinished:
            break
        live = _live_on(live, candidates, unfinished, beam)
    return [sentence.best() for sentence in finished]


@torch.inference_mode()
def force(model: TranslationModel, source: Tensor, source_lengths: Tensor, targets: list[list[int]]) -> list[float]:
    """Log-probability of a given translation of each source sentence, including </s>, in one forward pass."""
    if len(targets) != len(source):
        raise ValueError(f"targets: expected {len(source)}, one per source sentence, got {len(targets)}")
    eos, pad = model.symbols.eos, model.symbols.pad
    lengths = torch.tensor([len(pieces) + 1 for pieces in targets])
    width = int(lengths.max())
    padded = source.new_tensor([[*pieces, eos] + [pad] * (width - len(pieces) - 1) for pieces in targets])
    said = source.new_tensor([piece for pieces in targets for piece in [*pieces, eos]])
    hidden = model(source, source_lengths, padded, lengths)
    chunk = max(1, CHUNK_LOGITS // model.target_pieces)
    parts = zip(torch.split(hidden, chunk), torch.split(said, chunk), strict=True)
    log_p = torch.cat([_log_probability(_logits(model, states), pieces[:, None]) for states, pieces in parts]).cpu()
    return [float(sentence.sum()) for sentence in torch.split(log_p, lengths.tolist())]


def next_logits(model: TranslationModel, pieces: Tensor, memory: Memory, cache: Cache) -> tuple[Tensor, Cache]:
    """Feed one subword per hypothesis (B, W): logits (B, W, V) of the next one, and the extended cache."""
    hidden, cache = model.step(pieces, memory, cache)
    return _logits(model, hidden), cache


def _logits(model: TranslationModel, hidden: Tensor) -> Tensor:
    """Logits (..., V) in float32 or higher precision, with padding masked."""
    logits = model.project(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logits[..., model.symbols.pad] = -torch.inf
    return logits


def _log_probability(logits: Tensor, pieces: Tensor) -> Tensor:
    """Log-probabilities of subwords (n, k) under logits (n, V); in `sum_type`, because they are summed."""
    return (logits.gather(1, pieces) - logits.logsumexp(1, keepdim=True)).to(sum_type(logits.device))


# --- Beam search


class _Finished:
    """The finished hypotheses of one sentence, and the stopping rule."""

    def __init__(self, limit: int, wanted: int, length_penalty: float, n_best: int, eos: int) -> None:
        self.limit, self.wanted, self.length_penalty, self.n_best = limit, wanted, length_penalty, n_best
        self.eos = eos
        self.hypotheses: list[Hypothesis] = []
        self.best_has_ended = self.at_limit = False

    def add(self, said: list[int], log_p: float, rank: int) -> None:
        """`rank`: number of better candidates of the same length."""
        self.hypotheses.append(_hypothesis(said, log_p, self.length_penalty, self.eos))
        self.best_has_ended |= rank == 0
        self.at_limit = len(said) == self.limit

    @property
    def enough(self) -> bool:
        """Whether to stop. Without a length penalty: once the best candidate has ended, as none can overtake it."""
        if self.length_penalty == 0:
            return self.at_limit or (self.best_has_ended and len(self.hypotheses) >= self.n_best)
        return self.at_limit or len(self.hypotheses) >= self.wanted

    def best(self) -> list[Hypothesis]:
        return sorted(self.hypotheses, key=lambda hypothesis: -hypothesis.score)[: self.n_best]


@dataclass(frozen=True, eq=False)
class _Live:
    """Live hypotheses, W for each of n sentences."""

    sentences: list[int]  # n
    said: Tensor  # (n, W, length), starting with the last of the first inputs, usually </s>
    log_p: Tensor  # (n, W) in `sum_type`; minus infinity for unused slots
    memory: Memory  # of n sentences
    cache: Cache


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The C best continuations for each of n sentences, best first."""

    said: Tensor  # (n, C, length), as in `_Live`
    log_p: Tensor  # (n, C) in `sum_type`
    parent: Tensor  # (n, C): the live hypothesis that is continued
    cache: Cache  # of the parents
    eos: int

    @property
    def ended(self) -> Tensor:
        return self.said[:, :, -1] == self.eos


def _nothing_said(model: TranslationModel, memory: Memory, begin: Sequence[int]) -> _Live:
    """One empty hypothesis per sentence."""
    states = memory.states
    said = torch.full((len(states), 1, 1), begin[-1], device=states.device)
    log_p = torch.zeros((len(states), 1), dtype=sum_type(states.device), device=states.device)
    return _Live(list(range(len(states))), said, log_p, memory, _started(model, memory, begin))


def _continue(model: TranslationModel, live: _Live, number: int) -> _Candidates:
    """The `number` best continuations for each sentence, or all if there are fewer."""
    logits, cache = next_logits(model, live.said[:, :, -1], live.memory, live.cache)
    log_p, parent, piece = _best(live.log_p, logits.log_softmax(2), number, model.symbols.pad)
    said = live.said.gather(1, parent[:, :, None].expand(-1, -1, live.said.size(2)))
    return _Candidates(torch.cat([said, piece[:, :, None]], 2), log_p, parent, cache, model.symbols.eos)


def _best(before: Tensor, log_p: Tensor, number: int, pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `number` best sums of before (n, W) and log_p (n, W, V), where padding has minus infinity.

    Returns the sums, best first, and their places in W and V. Because topk is slow on whole vocabularies, it is applied
    to the maxima of parts first: the `number` best subwords are in the `number` best parts.
    """
    pieces = log_p.size(2)
    parts = -(-pieces // PART)  # part i has the subwords i, i + parts, i + 2 * parts, ...
    complete = pieces // parts * parts
    maxima = log_p[:, :, :complete].view(*log_p.shape[:2], -1, parts).amax(2)
    rest = maxima[:, :, : pieces - complete]
    torch.maximum(rest, log_p[:, :, complete:], out=rest)
    by_part = (before[:, :, None] + maxima).flatten(1)
    chosen = by_part.topk(min(number, by_part.size(1))).indices
    parent = (chosen // parts)[:, :, None]
    piece = (chosen % parts)[:, :, None] + torch.arange(0, pieces, parts, device=chosen.device)
    piece = piece.where(piece < pieces, pad)
    there = log_p.flatten(1).gather(1, (parent * pieces + piece).flatten(1)).view(piece.shape)
    sums = before.gather(1, parent[:, :, 0])[:, :, None] + there
    best, places = sums.flatten(1).topk(min(number, log_p[0].numel()))
    return best, parent.expand_as(piece).flatten(1).gather(1, places), piece.flatten(1).gather(1, places)


def _collect(candidates: _Candidates, finished: list[_Finished], beam: int) -> None:
    """Add the finished candidates among the first `beam` of each sentence to `finished`."""
    length = candidates.said.size(2) - 1
    at_limit = torch.tensor([sentence.limit == length for sentence in finished], device=candidates.said.device)
    finishing = (candidates.ended | at_limit[:, None]) & (candidates.log_p > -torch.inf)
    finishing[:, beam:] = False
    places, said, log_p = finishing.nonzero(), candidates.said[finishing], candidates.log_p[finishing]
    for (row, rank), pieces, log_p_pieces in zip(places.tolist(), said.tolist(), log_p.tolist(), strict=True):
        finished[row].add(pieces[1:], log_p_pieces, rank)


def _live_on(live: _Live, candidates: _Candidates, unfinished: list[int], beam: int) -> _Live:
    """The first `beam` candidates without </s>, for the unfinished sentences."""
    log_p = candidates.log_p.masked_fill(candidates.ended, -torch.inf)
    log_p, places = log_p.topk(min(beam, log_p.size(1)))
    said = candidates.said.gather(1, places[:, :, None].expand(-1, -1, candidates.said.size(2)))
    parents = candidates.parent.gather(1, places)
    sentences, memory, cache = live.sentences, live.memory, candidates.cache
    if len(unfinished) < len(sentences):
        rows = torch.tensor(unfinished, dtype=torch.int64, device=said.device)
        sentences = [sentences[row] for row in unfinished]
        said, log_p, parents = said[rows], log_p[rows], parents[rows]
        memory, cache = memory.select(rows), cache.select(rows)
    return _Live(sentences, said, log_p, memory, cache.follow(parents))


# --- Common helpers


def _begin(model: TranslationModel, begin: Sequence[int] | None) -> Sequence[int]:
    return [model.symbols.eos] if begin is None else begin


def _started(model: TranslationModel, memory: Memory, begin: Sequence[int]) -> Cache:
    """The cache after the first inputs of the decoder except the last one."""
    cache = model.start(memory)
    for piece in begin[:-1]:
        _, cache = model.step(torch.full((len(memory.states), 1), piece, device=memory.states.device), memory, cache)
    return cache


def _hypothesis(said: list[int], log_p: float, length_penalty: float, eos: int) -> Hypothesis:
    ended = said[-1] == eos
    return Hypothesis(said[:-1] if ended else said, log_p / len(said) ** length_penalty, log_p, ended)


def _limits(max_length: int | Tensor, sentences: int, max_positions: int) -> list[int]:
    limits: list[int] = torch.as_tensor(max_length).expand(sentences).clamp(max=max_positions).tolist()
    if min(limits, default=1) < 1:
        raise ValueError(f"max_length: expected at least 1, got {min(limits)}")
    return limits
