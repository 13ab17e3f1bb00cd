"""The store of a configuration: opened, and checked to be the one that the configuration describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenglot.config import Config, differences
from evenglot.config.data import SPLITS
from evenglot.corpus.pretrained import tokenizer_hash
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
    changed = differences(_decisive(store.made_with), _decisive(config))
    if changed:
        raise StoreError(f"{store.folder}: was prepared with another {some(sorted(changed))}; run `evenglot prepare`")
    empty = [name for name, pairs in store.sizes.items() if not pairs]
    if empty:
        raise StoreError(
            f"{store.folder}: nothing to train on for {some(empty)}; leave them out, or see `evenglot check`"
        )
    return store


def _decisive(config: Config) -> dict[str, Any]:
    """The settings that the ids in a store depend on. Of a pretrained model, its files matter, not where they are."""
    content = config.model_dump(include={"clean": True, "vocabulary": True, "data": {"codes"}})
    if config.model.init is not None:
        del content["vocabulary"]
    return {**content, "model": {"init": config.model.init is not None}}


def refuse_other_tokenizer(config: Config, store: Store) -> None:
    """Refuse a store with the tokenizer of another checkpoint than that of the configuration."""
    if config.model.init is not None:
        hashed = tokenizer_hash(Path(config.model.init))
        if store.manifest["vocabulary"]["hash"]["source"] != hashed:
            raise StoreError(
                f"{store.folder}: was prepared with another tokenizer than that of {config.model.init}; run "
                "`evenglot prepare`"
            )


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
