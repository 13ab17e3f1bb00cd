"""Whether both sides of a corpus are in the languages that the configuration says: swapped files, wrong columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from evenglot.corpus.languages import can_identify, likely_languages, plain_code
from evenglot.corpus.survey import Sample
from evenglot.directions import SIDES, Direction

TOGETHER = 10  # sentences that are identified as one text: alone, they are too short
AGREEING = 0.8  # share of such texts that must be in another language
CLOSE = 5  # an expected language among so many most likely ones is no surprise: related languages are confused

SWAPPED = "source and target look swapped; exchange the paths or columns, or turn the direction round"

Scripts = Mapping[str, Counter[str]]  # by language: in how many corpora a script is a main one


def doubts_about_sides(directions: Sequence[Direction], samples: Mapping[str, Sample]) -> dict[str, list[str]]:
    """Warnings about the languages of each training corpus, by its name."""
    known = [direction for direction in directions if direction.name in samples]
    doubts = {direction.name: list(_other_languages(direction, samples[direction.name])) for direction in known}
    for direction in known:
        if _swapped_scripts(direction, samples[direction.name], _elsewhere(direction, known, samples)):
            doubts[direction.name] = [SWAPPED]
    clear = [direction for direction in known if not doubts[direction.name]]  # what is wrong elsewhere is no evidence
    for direction in clear:
        doubts[direction.name] = list(
            _other_scripts(direction, samples[direction.name], _elsewhere(direction, clear, samples))
        )
    return doubts


def _elsewhere(direction: Direction, directions: Sequence[Direction], samples: Mapping[str, Sample]) -> Scripts:
    """The scripts of its languages in all other corpora."""
    found: dict[str, Counter[str]] = {direction.src: Counter(), direction.tgt: Counter()}
    for other in directions:
        if other.name != direction.name:
            for language, scripts in zip((other.src, other.tgt), samples[other.name].scripts, strict=True):
                if language in found:
                    found[language].update(scripts)
    return found


# ------------------------------------------------------------------------------------------------------------ scripts


def _swapped_scripts(direction: Direction, sample: Sample, elsewhere: Scripts) -> bool:
    """Is a side written in no script that its language has elsewhere, and the opposite side in those alone?"""
    sides = zip((direction.src, direction.tgt), sample.scripts, reversed(sample.scripts), strict=True)
    return any(
        bool(own and opposite and elsewhere[language])
        and not own & set(elsewhere[language])
        and opposite <= set(elsewhere[language])
        for language, own, opposite in sides
    )


def _other_scripts(direction: Direction, sample: Sample, elsewhere: Scripts) -> Iterator[str]:
    """Text in several scripts, or in another than elsewhere; only of the corpus in which it is so."""
    for language, own in zip((direction.src, direction.tgt), sample.scripts, strict=True):
        usual = elsewhere[language].most_common(1)
        if len(own) > 1:
            yield f"{language} is written in {' and '.join(sorted(own))}; check that the text is in one language"
        elif own and usual and usual[0][0] not in own:
            yield f"{language} is written in {min(own)}, elsewhere in {usual[0][0]}; check that the text is {language}"


# ---------------------------------------------------------------------------------------------------------- languages


def _other_languages(direction: Direction, sample: Sample) -> Iterator[str]:
    """What language identification says, if it is installed and there is text enough."""
    if len(sample.pairs) < 2 * TOGETHER or not can_identify():
        return
    names = {plain_code(code): code for code in (direction.tgt, direction.src)}
    codes = (plain_code(direction.src), plain_code(direction.tgt))
    texts = zip(*sample.pairs, strict=True)
    found = [_language(text, own, other) for text, own, other in zip(texts, codes, reversed(codes), strict=True)]
    if found == [codes[1], codes[0]]:
        yield SWAPPED
        return
    for side, language, other in zip(SIDES, (direction.src, direction.tgt), found, strict=True):
        if other is not None:
            yield f"its {side} side reads like {names.get(other, other)}, not {language}; check paths and columns"


def _language(sentences: Sequence[str], own: str, other: str) -> str | None:
    """The language that most of the text is in, if it is not its own; `other` is that of the opposite side."""
    parts = [" ".join(sentences[first : first + TOGETHER]) for first in range(0, len(sentences), TOGETHER)]
    (found, count), *_ = Counter(_read(part, own, other) for part in parts).most_common()
    return found if found != own and count >= AGREEING * len(parts) else None


def _read(text: str, own: str, other: str) -> str:
    likely = likely_languages(text)
    if likely[0] == other:
        return other
    return own if own not in likely or own in likely[:CLOSE] else likely[0]
