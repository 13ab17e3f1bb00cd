"""CTranslate2 as inference engine, instead of torch."""

from __future__ import annotations

from pathlib import Path

from evenglot.directions import SIDES
from evenglot.inference.ctranslate2.about import pieces_of, verified_about, vocabulary
from evenglot.inference.ctranslate2.package import package
from evenglot.model.search import Hypothesis
from evenglot.symbols import EOS

BATCH = 32  # sentences per batch


class CTranslate2Engine:
    """Translates with an exported folder, from ids to ids like `beam_search`."""

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        about = verified_about(folder)
        self.max_positions: int = about["max_positions"]
        self._source, target = (pieces_of(vocabulary(folder, side)) for side in SIDES)
        self._target_ids = {piece: i for i, piece in enumerate(target)}
        self._translator = package().Translator(str(folder), device="cpu", intra_threads=threads or 0)

    def translate(
        self, sources: list[list[int]], *, beam: int, length_penalty: float, max_length: list[int], n_best: int
    ) -> list[list[Hypothesis]]:
        """The `n_best` translations of each sentence, best score first.

        Source sentences include their tag and </s>. `max_length`: maximum number of subwords per translation.
        """
        self._check(sources, max_length)
        rows_of: dict[int, list[int]] = {}  # by limit, because CTranslate2 takes one limit per call
        for row, limit in enumerate(max_length):
            rows_of.setdefault(min(limit, self.max_positions), []).append(row)
        found: dict[int, list[Hypothesis]] = {}
        for limit, rows in rows_of.items():
            results = self._translator.translate_batch(
                [[self._source[piece] for piece in sources[row]] for row in rows],
                beam_size=beam,
                length_penalty=length_penalty,
                num_hypotheses=n_best,
                max_decoding_length=limit,
                min_decoding_length=0,
                max_input_length=0,  # no truncation
                max_batch_size=BATCH,
                return_scores=True,
                return_end_token=True,  # tells whether a translation ended or was cut at its limit
            )
            for row, result in zip(rows, results, strict=True):
                scored = zip(result.hypotheses, result.scores, strict=True)
                found[row] = [self._hypothesis(subwords, score, length_penalty) for subwords, score in scored]
        return [found[row] for row in range(len(sources))]

    def _check(self, sources: list[list[int]], max_length: list[int]) -> None:
        if len(max_length) != len(sources):
            raise ValueError(f"max_length: expected {len(sources)} values, one per sentence, got {len(max_length)}")
        if min(max_length, default=1) < 1:
            raise ValueError(f"max_length: expected at least 1, got {min(max_length)}")
        longest = max(map(len, sources), default=0)
        if longest > self.max_positions:
            raise ValueError(f"source: {longest} subwords exceed the model's maximum of {self.max_positions}")

    def _hypothesis(self, subwords: list[str], score: float, length_penalty: float) -> Hypothesis:
        pieces = [self._target_ids[subword] for subword in subwords]
        ended = pieces[-1] == EOS
        return Hypothesis(pieces[:-1] if ended else pieces, score, score * len(pieces) ** length_penalty, ended)
