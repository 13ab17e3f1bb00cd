"""Whether both sides of a corpus are in the languages that the configuration says: swapped files, wrong columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evenglot.config.data_fields import Split
from evenglot.corpus.languages import can_identify, likely_languages, plain_code
from evenglot.corpus.survey import Sample
from evenglot.directions import SIDES, Direction

TOGETHER = 10  # sentences that are identified as one text: alone, they are too short
AGREEING = 0.8  # share of such texts that must be in another language
CLOSE = 5  # an expected language among so many most likely ones is no surprise: related languages are confused

Scripts = Mapping[str, Counter[str]]  # by language: in how many corpora a script is a main one
OF_SPLIT: Mapping[Split, str] = {"train": "", "valid": " of the validation set", "test": " of the test set"}


@dataclass(frozen=True, eq=False)
class Text:
    """Training text of a corpus, or a validation or test set."""

    direction: Direction
    split: Split
    sample: Sample

    @property
    def languages(self) -> tuple[str, str]:
        """Those that it should be in, of source and target."""
        return self.direction.src, self.direction.tgt


def doubts_about_sides(
    directions: Sequence[Direction], samples: Mapping[tuple[str, Split], Sample]
) -> dict[str, list[str]]:
    """Warnings about the languages of each corpus, by its name; of its held-out text if the training text is right."""
    by_name = {direction.name: direction for direction in directions}
    texts = [Text(by_name[name], split, sample) for (name, split), sample in samples.items()]
    training = [text for text in texts if text.split == "train"]
    codes = {plain_code(code): code for direction in directions for code in (direction.tgt, direction.src)}
    doubts = {text: _other_sides(text, training, codes) for text in training}
    clear = [text for text in training if not doubts[text]]  # what is wrong elsewhere is no evidence
    right = {text.direction for text in clear}
    held_out = [text for text in texts if text.split != "train" and text.direction in right]
    doubts |= {text: _other_sides(text, clear, codes) for text in held_out}
    doubts |= {text: list(_other_scripts(text, clear)) for text in doubts if not doubts[text]}
    return {name: [each for text in doubts if text.direction.name == name for each in doubts[text]] for name in by_name}


def _other_sides(text: Text, others: Sequence[Text], codes: Mapping[str, str]) -> list[str]:
    """Whether the sides are swapped, or in other languages."""
    if _swapped_scripts(text, _elsewhere(text, others)):
        return [_swapped(text)]
    return list(_other_languages(text, codes))


def _swapped(text: Text) -> str:
    return f"source and target{OF_SPLIT[text.split]} look swapped; exchange the paths or columns" + (
        ", or turn the direction round" if text.split == "train" else ""
    )


def _elsewhere(text: Text, others: Sequence[Text]) -> Scripts:
    """The scripts of its languages in all other texts."""
    found: dict[str, Counter[str]] = {language: Counter() for language in text.languages}
    for other in others:
        if other is not text:
            for language, scripts in zip(other.languages, other.sample.scripts, strict=True):
                if language in found:
                    found[language].update(scripts)
    return found


# ------------------------------------------------------------------------------------------------------------ scripts


def _swapped_scripts(text: Text, elsewhere: Scripts) -> bool:
    """Is a side written in no script that its language has elsewhere, and the opposite side in those alone?"""
    scripts = text.sample.scripts
    return any(
        bool(own and opposite and elsewhere[language])
        and not own & set(elsewhere[language])
        and opposite <= set(elsewhere[language])
        for language, own, opposite in zip(text.languages, scripts, reversed(scripts), strict=True)
    )


def _other_scripts(text: Text, others: Sequence[Text]) -> Iterator[str]:
    """Text in several scripts, or in another than elsewhere; only of the corpus in which it is so."""
    elsewhere = _elsewhere(text, others)
    for language, own in zip(text.languages, text.sample.scripts, strict=True):
        where, usual = f"{language}{OF_SPLIT[text.split]}", elsewhere[language].most_common(1)
        if len(own) > 1:
            yield f"{where} is written in {' and '.join(sorted(own))}; check that the text is in one language"
        elif own and usual and usual[0][0] not in own:
            yield f"{where} is written in {min(own)}, elsewhere in {usual[0][0]}; check that the text is {language}"


# ---------------------------------------------------------------------------------------------------------- languages


def _other_languages(text: Text, codes: Mapping[str, str]) -> Iterator[str]:
    """What language identification says, if it is installed and there is text enough; in the codes of the user."""
    if len(text.sample.pairs) < 2 * TOGETHER or not can_identify():
        return
    own = tuple(map(plain_code, text.languages))
    sides = zip(*text.sample.pairs, strict=True)
    found = [_language(side, code, other) for side, code, other in zip(sides, own, reversed(own), strict=True)]
    if found == [own[1], own[0]]:
        yield _swapped(text)
        return
    for side, language, other in zip(SIDES, text.languages, found, strict=True):
        if other is not None:
            where = f"the {side} side{OF_SPLIT[text.split]}"
            yield f"{where} reads like {codes.get(other, other)}, not {language}; check paths and columns"


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
