"""Translate sentences, in order.

translator = load("runs/first")
translator.translate(sentences, to="en", source="por")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from evenglot.config.data import DataSettings
from evenglot.corpus.frames import Frame
from evenglot.corpus.tokenizers import Tokenizers
from evenglot.directions import Direction, check_code
from evenglot.inference.engines import CTranslate2Engine, Engine, SearchOptions, TorchEngine
from evenglot.inference.vocabularies import open_verified
from evenglot.model.devices import Device as Device
from evenglot.model.devices import usable_device
from evenglot.model.interface import TranslationModel
from evenglot.model.transformer import Transformer
from evenglot.runs.checkpoint import Checkpoint
from evenglot.runs.model import load_model
from evenglot.runs.run import Run
from evenglot.wording import some

BATCH_PIECES = 4096  # source subwords per batch, not counting beams
WINDOW = 5000  # sentences of a stream that are read ahead and sorted by length

EngineName = Literal["torch", "ctranslate2", "ctranslate2-int8"]


@dataclass(frozen=True)
class Translation:
    """A translation; `score` is its log-probability normalised by the length penalty."""

    text: str
    score: float


@dataclass(frozen=True)
class TranslationWarning:
    """A warning about one sentence, numbered from 1."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


Warn = Callable[[TranslationWarning], object]


class Translator:
    """A trained model with its vocabularies: translates text."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        directions: Sequence[Direction],
        max_positions: int,
    ) -> None:
        self.engine, self.directions, self.max_positions = engine, list(directions), max_positions
        self._tokenizers = tokenizers

    def __repr__(self) -> str:
        return f"<Translator {some(direction.name for direction in self.directions)}>"

    def translate(
        self,
        sentences: Iterable[str],
        *,
        to: str | None = None,
        source: str | None = None,
        beam: int = 5,
        length_penalty: float = 1.0,
        max_length: int = 200,
        max_ratio: float | None = None,
        force: bool = False,
    ) -> list[str]:
        """Translate from language `source` into language `to`; each is optional if there is only one.

        `force` allows directions that the model was not trained on (zero-shot).
        """
        direction = self.direction(to, source, force=force)
        options = SearchOptions(beam, length_penalty, max_length, max_ratio)
        return [best[0].text for best in self.stream(sentences, direction, options)]

    def stream(
        self, sentences: Iterable[str], direction: Direction, options: SearchOptions, warn: Warn = lambda warning: None
    ) -> Iterator[list[Translation]]:
        """Yield the n-best translations of each sentence; an empty sentence has one empty translation."""
        if isinstance(sentences, str):  # its characters would be translated one by one
            raise TypeError("sentences: expected several strings, such as a list, but this is one; write [text]")
        frame, _ = self._tokenizers.frames(direction)
        begin = self._tokenizers.begin(direction)
        numbered = enumerate(sentences, start=1)
        while window := list(islice(numbered, WINDOW)):
            sources = self._encode([text for _, text in window], frame)
            for (number, _), ids in zip(window, sources, strict=True):
                if len(ids) > self.max_positions:
                    what = f"{len(ids)} subwords, more than the model's maximum; truncated to {self.max_positions}"
                    warn(TranslationWarning(number, what))
                    ids[self.max_positions - len(frame.after) :] = frame.after
            yield from self._in_batches(sources, options, begin)

    def direction(self, to: str | None = None, source: str | None = None, *, force: bool = False) -> Direction:
        """The matching direction. Raises ValueError, listing all directions, if none or several match."""
        wanted = [d for d in self.directions if to in (None, d.tgt) and source in (None, d.src)]
        if wanted and len({d.tgt for d in wanted}) == len({self._tokenizers.frames(d) for d in wanted}) == 1:
            return wanted[0]
        known = f"available: {', '.join(d.name for d in self.directions)}"
        if wanted:
            has_one_target = len({d.tgt for d in wanted}) == 1
            missing = "source language (--from, in Python `source`)" if has_one_target else "target language (--to)"
            raise ValueError(f"specify the {missing}; {known}")
        asked = "-".join(language for language in (source, to) if language is not None)
        if not force or to is None:
            hint = "; use --force for zero-shot translation" if to is not None and self._tokenizers.names_target else ""
            untrained = "the model was not trained on this direction"
            if source is None or to is None:
                untrained = f"not a {'source' if to is None else 'target'} language of the model"
            raise ValueError(f"{asked}: {untrained}; {known}{hint}")
        if not self._tokenizers.names_target and to not in {d.tgt for d in self.directions}:
            raise ValueError(f"{asked}: the only target language of the model is {self.directions[0].tgt}")
        direction = Direction(check_code(source) if source else "und", check_code(to))
        self._tokenizers.frames(direction)  # or an error
        return direction

    def _encode(self, texts: list[str], frame: Frame) -> list[list[int]]:
        """Token ids with special tokens; empty for an empty sentence."""
        return [frame.around(ids) if ids else [] for ids in self._tokenizers.encode(texts, "source")]

    def _in_batches(
        self, sources: list[list[int]], options: SearchOptions, begin: Sequence[int]
    ) -> Iterator[list[Translation]]:
        """Translate in batches of similar length; yield in the original order."""
        order = sorted((row for row, ids in enumerate(sources) if ids), key=lambda row: -len(sources[row]))
        found: dict[int, list[Translation]] = {}
        while order:
            size = max(1, BATCH_PIECES // len(sources[order[0]]))
            rows, order = order[:size], order[size:]
            results = self.engine.translate([sources[row] for row in rows], options, begin)
            texts = iter(self._tokenizers.decode([each.pieces for hypotheses in results for each in hypotheses]))
            for row, hypotheses in zip(rows, results, strict=True):
                found[row] = [Translation(next(texts), hypothesis.score) for hypothesis in hypotheses]
        for row in range(len(sources)):
            yield found.get(row, [Translation("", 0.0)])


def load(
    run: str | os.PathLike[str],
    *,
    which: str = "best",
    device: Device = "auto",
    engine: EngineName = "torch",
) -> Translator:
    """Load a translator from a run folder. `which`: best, last, average, or a number of updates."""
    home = Run(Path(run))
    config, chosen = home.config(), home.choose(which)
    return translator_of(home, config.data, chosen, load_model(chosen, config.model.init), device, engine)


def translator_of(
    run: Run,
    data: DataSettings,
    chosen: Checkpoint,
    model: TranslationModel,
    device: Device = "auto",
    engine: EngineName = "torch",
) -> Translator:
    """A translator for the already loaded model of a checkpoint."""
    tokenizers = open_verified(run, chosen, data)
    working: Engine
    if engine == "torch":
        working = TorchEngine(model, usable_device(device))
    elif not isinstance(model, Transformer):
        raise ValueError(f"engine: {engine} does not translate with a pretrained model; use torch")
    else:
        from evenglot.inference.ctranslate2 import converted

        working = CTranslate2Engine(converted(run, chosen, model, "int8" if engine.endswith("int8") else "float32"))
    return Translator(working, tokenizers, data.directions, model.max_positions)
