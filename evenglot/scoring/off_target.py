"""The off-target rate: the share of translations not in the target language."""

from __future__ import annotations

from collections.abc import Sequence

from evenglot.corpus.languages import identifier, plain_code


def off_target_rate(sentences: Sequence[str], language: str) -> float | None:
    """Share of sentences identified as another language; None if langid is not installed or lacks the language.

    Identification of short sentences is unreliable, so only differences between rates are meaningful.
    """
    known = identifier()
    expected = plain_code(language)
    said = [sentence for sentence in sentences if sentence.strip()]
    if known is None or not said or expected not in {plain_code(label) for label in known.labels}:
        return None
    return sum(plain_code(known.classify(sentence)[0]) != expected for sentence in said) / len(said)
