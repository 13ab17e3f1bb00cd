"""Translation with an exported folder, in place of torch."""

from __future__ import annotations

from pathlib import Path

from evenglot.directions import SIDES
from evenglot.inference.ctranslate2.about import ABOUT, pieces_of, read_about, vocabulary
from evenglot.inference.ctranslate2.package import package
from evenglot.model.search import Hypothesis
from evenglot.symbols import EOS

BATCH = 32  # sentences that are translated together


class CTranslate2Engine:
    """Translates with an exported folder: ids in, ids out, as `beam_search` does it."""

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        about = read_about(folder)
        if about is None:
            raise ValueError(f"{folder}: not an export for CTranslate2 (it has no {ABOUT} that says so)")
        self.max_positions: int = about["max_positions"]
        self._source, target = (pieces_of(vocabulary(folder, side)) for side in SIDES)
        self._target_ids = {piece: i for i, piece in enumerate(target)}
        self._translator = package().Translator(str(folder), device="cpu", intra_threads=threads or 0)

    def translate(
        self, sources: list[list[int]], *, beam: int, length_penalty: float, max_length: list[int], n_best: int
    ) -> list[list[Hypothesis]]:
        """The `n_best` translations of each sentence, the best score first.

        Source sentences have their tag and </s>. `max_length`: how many pieces the translation of each gets at most.
        """
        self._check(sources, max_length)
        rows_of: dict[int, list[int]] = {}  # by limit: CTranslate2 has one for all sentences of a call
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
                max_input_length=0,  # never cut
                max_batch_size=BATCH,
                return_scores=True,
                return_end_token=True,  # shows whether a translation has ended or was cut
            )
            for row, result in zip(rows, results, strict=True):
                scored = zip(result.hypotheses, result.scores, strict=True)
                found[row] = [self._hypothesis(said, score, length_penalty) for said, score in scored]
        return [found[row] for row in range(len(sources))]

    def _check(self, sources: list[list[int]], max_length: list[int]) -> None:
        if len(max_length) != len(sources):
            raise ValueError(f"max_length: expected one for each of {len(sources)} sentences, got {len(max_length)}")
        if min(max_length, default=1) < 1:
            raise ValueError(f"max_length: expected at least 1, got {min(max_length)}")
        longest = max(map(len, sources), default=0)
        if longest > self.max_positions:
            raise ValueError(f"source: {longest} pieces are more than the model's {self.max_positions} positions")

    def _hypothesis(self, said: list[str], score: float, length_penalty: float) -> Hypothesis:
        pieces = [self._target_ids[piece] for piece in said]
        ended = pieces[-1] == EOS
        return Hypothesis(pieces[:-1] if ended else pieces, score, score * len(pieces) ** length_penalty, ended)
