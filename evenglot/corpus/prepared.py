"""The store of a configuration: opened, and checked to be the one that the configuration describes."""

from __future__ import annotations

from pathlib import Path

from evenglot.config import Config, differences
from evenglot.config.data import SPLITS
from evenglot.corpus.store import Store, open_store
from evenglot.wording import some


class StoreError(ValueError):
    """A store does not fit the configuration; the message says why and what to do."""


def open_prepared(config: Config, verify: bool = True) -> Store:
    """The store of a configuration; StoreError if it was made for other directions or settings."""
    store = open_store(Path(config.store.folder), verify)
    wanted = sorted(direction.name for direction in config.data.directions)
    if sorted(store.directions) != wanted:
        other = set(wanted) ^ set(store.directions)
        raise StoreError(
            f"{store.folder}: was prepared for other directions ({some(sorted(other))}); run `evenglot prepare`"
        )
    sections = ("clean", "vocabulary")
    changed = differences(store.made_with.model_dump(include=set(sections)), config.model_dump(include=set(sections)))
    if changed:
        raise StoreError(f"{store.folder}: was prepared with another {some(sorted(changed))}; run `evenglot prepare`")
    empty = [name for name, pairs in store.sizes.items() if not pairs]
    if empty:
        raise StoreError(
            f"{store.folder}: nothing to train on for {some(empty)}; leave them out, or see `evenglot check`"
        )
    return store


def refuse_other_text(config: Config, store: Store) -> None:
    """Refuse a store whose text was selected by other settings than the configuration's."""
    keys = {"data": {"invalid_utf8", "columns", "file_codes"}, "store": {"valid_cap", "seed"}}
    changed = differences(store.made_with.model_dump(include=keys), config.model_dump(include=keys))
    if changed:
        raise StoreError(f"{store.folder}: was prepared with another {some(sorted(changed))}; run `evenglot prepare`")


def other_paths(config: Config, store: Store) -> list[str]:
    """Splits whose paths differ from those the store was made from: the text was moved or replaced."""
    return [
        f"data.{split}"
        for split in SPLITS
        if any(config.data.files(d, split) != store.made_with.data.files(d, split) for d in config.data.directions)
    ]
