"""Greedy and beam search with a key/value cache, and the log-probability of a given translation.

They share one distribution: the softmax over all subwords but padding, which is masked before the softmax because the
model was never trained to predict it. An inference engine agrees if its output layer gives padding a bias of minus
infinity, or a large negative number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from evenglot.model.loss import CHUNK_LOGITS
from evenglot.model.transformer import Cache, Memory, Transformer
from evenglot.symbols import EOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    """A translation, and how likely the model finds it."""

    pieces: list[int]  # without </s>
    score: float  # log_probability / length ** length_penalty, where </s> counts as a piece
    log_probability: float  # natural logarithm, summed over the pieces and </s>
    ended: bool  # False: cut at max_length, with no </s> in score and log_probability


@torch.inference_mode()
def greedy(
    model: Transformer, source: Tensor, source_lengths: Tensor, max_length: int | Tensor = 200
) -> list[list[int]]:
    """Take the best next piece until </s>: the pieces of each target sentence, without </s>.

    `max_length`: how many pieces a sentence gets at most, one number for all or one for each (B,); in any case not more
    than the model has positions. Sentences that are finished leave the batch. Call model.eval() before.
    """
    limits = _limits(max_length, len(source), model.shape.max_positions)
    memory = model.encode(source, source_lengths)
    cache = model.start(memory)
    pieces = torch.full((len(limits),), EOS, device=memory.states.device)
    said: list[list[int]] = [[] for _ in limits]
    sentences = list(range(len(limits)))  # row r of pieces, memory and cache belongs to sentences[r]
    while sentences:
        logits, cache = next_logits(model, pieces, memory, cache)
        pieces = logits.argmax(1)
        for sentence, piece in zip(sentences, pieces.tolist(), strict=True):
            said[sentence].append(piece)
        unfinished = [row for row, s in enumerate(sentences) if said[s][-1] != EOS and len(said[s]) < limits[s]]
        if len(unfinished) < len(sentences):
            rows = torch.tensor(unfinished, dtype=torch.int64, device=pieces.device)
            sentences = [sentences[row] for row in unfinished]
            pieces, memory, cache = pieces[rows], memory.select(rows), cache.select(rows)
    return [found[:-1] if found[-1] == EOS else found for found in said]


@torch.inference_mode()
def beam_search(
    model: Transformer,
    source: Tensor,
    source_lengths: Tensor,
    *,
    beam: int = 5,
    length_penalty: float = 1.0,
    max_length: int | Tensor = 200,
    n_best: int = 1,
    patience: float = 1.0,
) -> list[list[Hypothesis]]:
    """The `n_best` translations of each sentence that a beam search finds, the best score first.

    Scores are log-probabilities divided by length ** length_penalty. `max_length` as in `greedy`. Call model.eval()
    before. Fewer than `n_best` come back only if there are no more of `max_length` pieces. The search is over when
    beam * patience hypotheses are finished. Where </s> is often among the best next pieces, as in small models, these
    can all be too short ones, found before the best translation is: then `patience` 2 helps.
    """
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best: expected 1 <= n_best <= beam, got n_best = {n_best} and beam = {beam}")
    if not 1 <= patience < math.inf:
        raise ValueError(f"patience: expected a number from 1 on, got {patience}")
    limits = _limits(max_length, len(source), model.shape.max_positions)
    wanted = math.floor(beam * patience + 0.5)
    finished = [_Finished(limit, wanted, length_penalty, n_best) for limit in limits]
    live = _nothing_said(model, model.encode(source, source_lengths))
    # The rule is that of CTranslate2 4 with min_decoding_length 0, for equal output of exported models.
    # From all continuations of a sentence's live hypotheses take the 2 * beam best. Of these,
    # - those that end with </s> and are among the first `beam` are finished; those further down are dropped;
    # - the first `beam` that do not end live on. There are so many, as each hypothesis ends in one way only.
    # When the sentence has max_length pieces, the first `beam` are finished, with </s> or without.
    while live.sentences:
        candidates = _continue(model, live, 2 * beam)
        _collect(candidates, [finished[sentence] for sentence in live.sentences], beam)
        unfinished = [row for row, sentence in enumerate(live.sentences) if not finished[sentence].enough]
        live = _live_on(live, candidates, unfinished, beam)
    return [sentence.best() for sentence in finished]


@torch.inference_mode()
def force(model: Transformer, source: Tensor, source_lengths: Tensor, targets: list[list[int]]) -> list[float]:
    """Log-probability of a given translation of each source sentence, with the </s> after it; all pieces at once."""
    if len(targets) != len(source):
        raise ValueError(f"targets: expected one for each of {len(source)} source sentences, got {len(targets)}")
    lengths = torch.tensor([len(pieces) + 1 for pieces in targets])
    width = int(lengths.max())
    padded = source.new_tensor([[*pieces, EOS] + [PAD] * (width - len(pieces) - 1) for pieces in targets])
    said = source.new_tensor([piece for pieces in targets for piece in [*pieces, EOS]])
    hidden = model(source, source_lengths, padded, lengths)
    chunk = max(1, CHUNK_LOGITS // model.shape.target_pieces)
    parts = zip(torch.split(hidden, chunk), torch.split(said, chunk), strict=True)
    log_p = torch.cat([_log_probability(_logits(model, states), pieces[:, None]) for states, pieces in parts]).cpu()
    return [float(sentence.sum()) for sentence in torch.split(log_p, lengths.tolist())]


def next_logits(model: Transformer, pieces: Tensor, memory: Memory, cache: Cache) -> tuple[Tensor, Cache]:
    """See one more piece (B,) of each sentence: logits (B, V) of the one after it, and the longer cache."""
    hidden, cache = model.step(pieces, memory, cache)
    return _logits(model, hidden), cache


def _logits(model: Transformer, hidden: Tensor) -> Tensor:
    """(n, V) in float32 at least, padding ruled out."""
    logits = hidden @ model.output_embedding.T
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logits[:, PAD] = -torch.inf
    return logits


def _log_probability(logits: Tensor, pieces: Tensor) -> Tensor:
    """Of pieces (n, k), each row by its own logits (n, V); in float64, as these are to be summed."""
    return (logits.gather(1, pieces) - logits.logsumexp(1, keepdim=True)).double()


# --- Many hypotheses at a time: beam search


class _Finished:
    """The finished hypotheses of one sentence, and whether there are enough of them."""

    def __init__(self, limit: int, wanted: int, length_penalty: float, n_best: int) -> None:
        self.limit, self.wanted, self.length_penalty, self.n_best = limit, wanted, length_penalty, n_best
        self.hypotheses: list[Hypothesis] = []
        self.best_has_ended = self.at_limit = False

    def add(self, said: list[int], log_p: float, rank: int) -> None:
        """`rank`: how many candidates of the same length are better."""
        self.hypotheses.append(_hypothesis(said, log_p, self.length_penalty))
        self.best_has_ended |= rank == 0
        self.at_limit = len(said) == self.limit

    @property
    def enough(self) -> bool:
        """As many as wanted. With no length penalty: when the best has ended, than which none can become better."""
        if self.length_penalty == 0:
            return self.at_limit or (self.best_has_ended and len(self.hypotheses) >= self.n_best)
        return self.at_limit or len(self.hypotheses) >= self.wanted

    def best(self) -> list[Hypothesis]:
        return sorted(self.hypotheses, key=lambda hypothesis: -hypothesis.score)[: self.n_best]


@dataclass(frozen=True, eq=False)
class _Live:
    """Hypotheses to continue, W for each of n sentences; rows of memory and cache are theirs, W after W."""

    sentences: list[int]  # n
    said: Tensor  # (n, W, length), </s> the first
    log_p: Tensor  # (n, W) float64; minus infinity if the sentence has fewer than W
    memory: Memory
    cache: Cache


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The C best continuations for each of n sentences, the best first."""

    said: Tensor  # (n, C, length), </s> the first
    log_p: Tensor  # (n, C) float64
    origin: Tensor  # (n, C): which row of the cache is continued
    cache: Cache

    @property
    def ended(self) -> Tensor:
        return self.said[:, :, -1] == EOS


def _nothing_said(model: Transformer, memory: Memory) -> _Live:
    """One hypothesis for each sentence: the first step needs no more."""
    states = memory.states
    said = torch.full((len(states), 1, 1), EOS, device=states.device)
    log_p = torch.zeros((len(states), 1), dtype=torch.float64, device=states.device)
    return _Live(list(range(len(states))), said, log_p, memory, model.start(memory))


def _continue(model: Transformer, live: _Live, number: int) -> _Candidates:
    """The best `number` of continuations for each sentence, or all, if there are fewer."""
    sentences, width, length = live.said.shape
    logits, cache = next_logits(model, live.said[:, :, -1].flatten(), live.memory, live.cache)
    each = min(number, logits.size(1))  # from no hypothesis can there be more than `number` among the best `number`
    pieces = logits.topk(each).indices
    log_p = live.log_p.view(-1, 1) + _log_probability(logits, pieces)
    log_p, chosen = log_p.view(sentences, -1).topk(min(number, width * each))
    parent = chosen // each
    said = live.said.gather(1, parent[:, :, None].expand(-1, -1, length))
    said = torch.cat([said, pieces.view(sentences, -1).gather(1, chosen)[:, :, None]], 2)
    first_row = torch.arange(sentences, device=parent.device)[:, None] * width
    return _Candidates(said, log_p, first_row + parent, cache)


def _collect(candidates: _Candidates, finished: list[_Finished], beam: int) -> None:
    """Finished candidates among the first `beam` of each sentence."""
    length = candidates.said.size(2) - 1
    at_limit = torch.tensor([sentence.limit == length for sentence in finished], device=candidates.said.device)
    finishing = (candidates.ended | at_limit[:, None]) & (candidates.log_p > -torch.inf)
    finishing[:, beam:] = False
    places, said, log_p = finishing.nonzero(), candidates.said[finishing], candidates.log_p[finishing]
    for (row, rank), pieces, log_p_pieces in zip(places.tolist(), said.tolist(), log_p.tolist(), strict=True):
        finished[row].add(pieces[1:], log_p_pieces, rank)


def _live_on(live: _Live, candidates: _Candidates, unfinished: list[int], beam: int) -> _Live:
    """The first `beam` candidates that have not ended, for the unfinished ones of the sentences."""
    rows = torch.tensor(unfinished, dtype=torch.int64, device=candidates.said.device)
    log_p = candidates.log_p.masked_fill(candidates.ended, -torch.inf)[rows]
    log_p, places = log_p.topk(min(beam, log_p.size(1)))
    said = candidates.said[rows].gather(1, places[:, :, None].expand(-1, -1, candidates.said.size(2)))
    origin = candidates.origin[rows].gather(1, places).flatten()
    # All hypotheses of a sentence have the same memory: it is not moved as long as their number stays the same.
    same = said.shape[:2] == live.said.shape[:2]
    memory = live.memory if same else live.memory.select(origin)
    return _Live([live.sentences[row] for row in unfinished], said, log_p, memory, candidates.cache.select(origin))


# --- For all


def _hypothesis(said: list[int], log_p: float, length_penalty: float) -> Hypothesis:
    ended = said[-1] == EOS
    return Hypothesis(said[:-1] if ended else said, log_p / len(said) ** length_penalty, log_p, ended)


def _limits(max_length: int | Tensor, sentences: int, max_positions: int) -> list[int]:
    limits: list[int] = torch.as_tensor(max_length).expand(sentences).clamp(max=max_positions).tolist()
    if min(limits, default=1) < 1:
        raise ValueError(f"max_length: expected at least 1, got {min(limits)}")
    return limits
