"""The shape of a store's manifest, checked when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from evenglot.corpus.vocabulary import Coverage
from evenglot.directions import SIDES, parse, whole_direction
from evenglot.records import read_record

_LEAST_0: dict[str, float] = {"least": 0}
DTYPES = {"uint16", "uint32"}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One split of a direction. `sections`: file, first byte, size and checksum; older stores have none."""

    artefact: str
    pairs: int = field(metadata=_LEAST_0)
    source_tokens: int = field(metadata=_LEAST_0)
    target_tokens: int = field(metadata=_LEAST_0)
    sections: Mapping[str, Sequence[str | int]] | None = field(default=None, metadata=_LEAST_0)


@dataclass(frozen=True, kw_only=True)
class VocabularyFacts:
    """What the manifest says about the vocabularies."""

    artefact: str
    kind: str = ""
    pieces: Mapping[str, int]
    asked: Mapping[str, int]
    dtype: Mapping[str, str]
    coverage: Mapping[str, Coverage]
    hash: Mapping[str, str]
    tags: Sequence[Any]  # of pretrained tokenizers: pairs of language and code


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What all stores have in common."""

    format: int = 2  # that of artefacts; earlier manifests do not say it
    vocabulary: VocabularyFacts
    directions: Mapping[str, Mapping[str, Part]]
    artefacts: Sequence[str]
    checksums: Mapping[str, str]


def refuse_invalid(content: Mapping[str, Any]) -> None:
    """Raise ValueError if this is not the manifest of a store. Paths must stay inside the store."""
    manifest = read_record(Manifest, content)
    known = set(manifest.artefacts)
    if any(PurePath(name).is_absolute() or ".." in PurePath(name).parts for name in known):
        raise ValueError("`artefacts`: a path leaves the store")
    if set(manifest.checksums) != known or manifest.vocabulary.artefact not in known:
        raise ValueError("`artefacts`: not those of the checksums")
    vocabulary = manifest.vocabulary
    if set(vocabulary.dtype.values()) - DTYPES:
        raise ValueError("`vocabulary.dtype`: expected uint16 or uint32")
    for facts in (vocabulary.dtype, vocabulary.pieces, vocabulary.asked, vocabulary.hash):
        if set(facts) != set(SIDES):
            raise ValueError(f"`vocabulary`: expected values for {' and '.join(SIDES)}")
    if not all(isinstance(part, str) for each in vocabulary.tags for part in (each if type(each) is list else [each])):
        raise ValueError("`vocabulary.tags`: expected tags, or pairs of language and code")
    for name, parts in content["directions"].items():
        parse(whole_direction(name))
        if "train" not in parts:
            raise ValueError(f"`directions.{name}`: has no training text")
        for split, part in parts.items():
            _refuse_invalid_part(part, known, f"directions.{name}.{split}")


def _refuse_invalid_part(part: Mapping[str, Any], known: set[str], place: str) -> None:
    if part["artefact"] not in known:
        raise ValueError(f"`{place}.artefact`: not one of the artefacts")
    for name, section in (part.get("sections") or {}).items():
        if [type(each) for each in section] != [str, int, int, int] or "/" in section[0]:
            raise ValueError(f"`{place}.sections.{name}`: expected a file and three numbers")
