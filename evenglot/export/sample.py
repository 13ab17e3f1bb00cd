"""Sentences used to compare an exported model with the original."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from evenglot.config import Config
from evenglot.corpus.artefacts import DamagedError
from evenglot.corpus.store import open_store
from evenglot.directions import Direction, parse, tag, tag_kind


def tagged_sentences(config: Config, otherwise: Mapping[str, Sequence[str]] | None = None) -> Iterator[tuple[str, str]]:
    """(tag, validation sentence) from the run's store, alternating between directions.

    `otherwise`: sentences by direction name, used if the store is missing or has no validation sets.
    """
    texts = validation_text(config) or {parse(name): lines for name, lines in (otherwise or {}).items()}
    kind = tag_kind(config.data.directions)
    for row in zip_longest(*texts.values()):
        for direction, sentence in zip(texts, row, strict=True):
            if sentence:
                yield tag(direction, kind), sentence


def validation_text(config: Config) -> dict[Direction, Sequence[str]]:
    """Validation text by direction; text, not ids, because the store's vocabulary may have changed since the run."""
    try:
        store = open_store(Path(config.store.folder), verify=False)
    except DamagedError:
        return {}
    held = [d for d in config.data.directions if d.name in store.directions and "valid" in store.splits(d.name)]
    return {direction: store.text(direction.name, "valid", "source") for direction in held}
