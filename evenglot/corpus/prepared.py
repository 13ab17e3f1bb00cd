"""The store of a configuration: opened, and checked to be the one that the configuration describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenglot import __version__
from evenglot.config import Config, differences
from evenglot.config.data_fields import SPLITS
from evenglot.corpus.given import given_hash
from evenglot.corpus.identity import settings_key
from evenglot.corpus.store import Store, open_store
from evenglot.wording import some


class StoreError(ValueError):
    """A store does not fit the configuration; the message says why and what to do."""


def open_prepared(config: Config, verify: bool = True) -> Store:
    """The store of a configuration; StoreError if it was made for other directions or settings."""
    store = open_store(Path(config.store.folder), verify)
    wanted = sorted(corpus.name for corpus in config.data.corpora)
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
    content["data"]["corpora"] = {corpus.name: corpus.tagged for corpus in config.data.corpora if corpus.corpus}
    if config.model.init is not None:
        del content["vocabulary"]
    elif config.vocabulary.given is not None:
        content["vocabulary"] = {"from": True}
    return {**content, "model": {"init": config.model.init is not None}}


def refuse_other_tokenizer(config: Config, store: Store) -> None:
    """Refuse a store with another tokenizer or other vocabularies than those that the configuration names."""
    hashed, vocabulary = given_hash(config), store.manifest["vocabulary"]
    if hashed is not None and vocabulary.get("given", vocabulary["hash"]["source"]) != hashed:
        raise StoreError(
            f"{store.folder}: was prepared with another tokenizer than that of "
            f"{config.model.init or config.vocabulary.given}; run `evenglot prepare`"
        )


def refuse_other_text(config: Config, store: Store) -> None:
    """Refuse a store whose text was selected by other settings than the configuration's."""
    keys = {"data": {"invalid_utf8", "columns", "file_codes"}, "store": {"valid_cap", "seed"}}
    changed = differences(store.made_with.model_dump(include=keys), config.model_dump(include=keys))
    if changed:
        raise StoreError(f"{store.folder}: was prepared with another {some(sorted(changed))}; run `evenglot prepare`")


def text_has_changed(config: Config, store: Store) -> bool:
    """Whether files have changed in place since the store was made from them; False if that cannot be told."""
    keys = {"data", "clean", "vocabulary", "store"}
    before, now = (each.model_dump(include=keys, by_alias=True) for each in (store.made_with, config))
    is_told = store.manifest.get("made_by") == f"evenglot {__version__}"
    if not is_told or differences(before, now) - {"store.folder", "store.threads"}:
        return False
    try:
        return bool(settings_key(config) != store.manifest["settings"])
    except OSError:  # training does not need the text
        return False


def other_paths(config: Config, store: Store) -> list[str]:
    """Splits whose paths differ from those the store was made from: the text was moved or replaced."""
    return [
        f"data.{split}"
        for split in SPLITS
        if any(config.data.files(d, split) != store.made_with.data.files(d, split) for d in config.data.corpora)
    ]
