"""Inference backends, from token ids to token ids: beam search in torch, or CTranslate2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Protocol

import torch

from evenglot.model import search
from evenglot.model.interface import TranslationModel
from evenglot.model.packed import packed
from evenglot.model.search import Hypothesis
from evenglot.model.transformer import Transformer

MOST_PENALTY = 50  # with larger exponents, powers of the length overflow
MOST_PIECES = 1_000_000  # far above the limit of any model


@dataclass(frozen=True)
class SearchOptions:
    """Options of beam search. The defaults are those of the paper."""

    beam: int = 5
    length_penalty: float = 1.0
    max_length: int = 200  # maximum number of subwords of a translation
    max_ratio: float | None = None  # maximum number of subwords of a translation per source subword
    n_best: int = 1

    def __post_init__(self) -> None:
        for name in ("beam", "max_length", "n_best"):
            if not 1 <= getattr(self, name) <= MOST_PIECES:
                raise ValueError(f"{name}: expected a number from 1 to {MOST_PIECES:,}, got {getattr(self, name)}")
        if self.n_best > self.beam:
            raise ValueError(f"n_best: expected at most the beam size {self.beam}, got {self.n_best}; increase beam")
        if self.max_ratio is not None and not 0 < self.max_ratio < inf:
            raise ValueError(f"max_ratio: expected a number above 0, got {self.max_ratio}")
        if not abs(self.length_penalty) <= MOST_PENALTY:
            raise ValueError(
                f"length_penalty: expected a number from -{MOST_PENALTY} to {MOST_PENALTY}, got {self.length_penalty}"
            )

    def longest(self, source: Sequence[int]) -> int:
        """Maximum number of subwords in the translation of a source sentence."""
        by_ratio = self.max_length if self.max_ratio is None else max(1, round(self.max_ratio * len(source)))
        return min(self.max_length, by_ratio)


class Engine(Protocol):
    """Translates batches of sentences of similar length, given as token ids including tag and </s>."""

    def translate(
        self, sources: list[list[int]], options: SearchOptions, begin: Sequence[int] | None = None
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each sentence, best first; `begin` as in `search.greedy`."""


class CTranslate2Engine:
    """CTranslate2 backend, faster on a CPU."""

    def __init__(self, folder: Path) -> None:
        from evenglot.inference import ctranslate2

        self._engine = ctranslate2.CTranslate2Engine(folder, torch.get_num_threads())

    def translate(
        self, sources: list[list[int]], options: SearchOptions, begin: Sequence[int] | None = None
    ) -> list[list[Hypothesis]]:
        """Translate with CTranslate2's beam search, which follows the rules of ours; `begin` is always </s>."""
        return self._engine.translate(
            sources,
            beam=options.beam,
            length_penalty=options.length_penalty,
            max_length=[options.longest(source) for source in sources],
            n_best=options.n_best,
        )


class TorchEngine:
    """Beam search in torch."""

    def __init__(self, model: TranslationModel, device: torch.device) -> None:
        ready = model.to(device).eval()
        self.model = packed(ready) if isinstance(ready, Transformer) else ready
        self.device = device

    def translate(
        self, sources: list[list[int]], options: SearchOptions, begin: Sequence[int] | None = None
    ) -> list[list[Hypothesis]]:
        """Translate a batch of sentences."""
        lengths = torch.tensor([len(source) for source in sources])
        width = int(lengths.max())
        pad = self.model.symbols.pad
        padded = torch.tensor([[*source, *[pad] * (width - len(source))] for source in sources], device=self.device)
        return search.beam_search(
            self.model,
            padded,
            lengths,
            beam=options.beam,
            length_penalty=options.length_penalty,
            max_length=torch.tensor([options.longest(source) for source in sources]),
            n_best=options.n_best,
            begin=begin,
        )
