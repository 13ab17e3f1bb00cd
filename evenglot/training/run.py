"""A run is a folder a person can read: config.yaml, log.jsonl, checkpoints/, vocabulary/, baseline.json, ...

This file knows where things are in it, whether a new run may begin there, and how to get the model out.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenglot.batches.draw import generator
from evenglot.config import Config, ConfigError, load_config
from evenglot.config.errors import some
from evenglot.corpus.store import SIDES, Store, open_store
from evenglot.files import finished_folder
from evenglot.model.transformer import SIZES, Shape, Transformer
from evenglot.training import checkpoint
from evenglot.training.checkpoint import Checkpoint

# Keys that may change when a run goes on: they decide when it ends and what is kept and shown, not what is learnt.
FREE_TO_CHANGE = {
    "store.folder",
    *(f"store.{key}" for key in ("threads",)),
    *(
        f"train.{key}"
        for key in (
            "updates",
            "intervals",
            "patience",
            "chrf_sentences",
            "save_every",
            "keep_last",
            "keep_best",
            "average",
            "log_every",
            "warn_passes",
            "trackers",
            "device",
            "precision",
            "threads",
        )
    ),
}


class RunError(ValueError):
    """A run cannot be started, resumed or read; the message says why and what to do."""


@dataclass(frozen=True)
class Run:
    """The folder of a run."""

    folder: Path

    @property
    def config_file(self) -> Path:
        """The resolved configuration."""
        return self.folder / "config.yaml"

    @property
    def log_file(self) -> Path:
        """The record of everything."""
        return self.folder / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / "checkpoints"

    @property
    def vocabulary(self) -> Path:
        """The folder of the SentencePiece models, so that a run can translate without its store."""
        return self.folder / "vocabulary"

    @property
    def baseline_file(self) -> Path:
        """Reference losses that were computed for this run (`balance.baseline: auto`)."""
        return self.folder / "baseline.json"

    @property
    def reference(self) -> Run:
        """The run that was trained for them."""
        return Run(self.folder / "reference")

    def config(self) -> Config:
        """The configuration it was trained with."""
        if not self.config_file.exists():
            raise RunError(f"{self.folder}: not a run (it has no config.yaml); `evenglot train` makes one")
        return load_config(self.config_file, check_files=False)

    def own_baseline_file(self) -> Path:
        """Where the losses of this run's model go, unless somebody says otherwise."""
        if self.config().balance.options.get("baseline") == "auto":
            raise RunError(f"{self.baseline_file}: this run was trained against it; write elsewhere, with --out FILE")
        return self.baseline_file

    def best(self) -> Checkpoint:
        """The checkpoint with the best validation."""
        found = checkpoint.best(self.checkpoints)
        if found is None:
            raise RunError(f"{self.folder}: no checkpoint yet; `evenglot train` writes one after each interval")
        return found

    def begin(self, config: Config, store: Store) -> None:
        """Write what does not change: the configuration and the vocabularies."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config.save(self.config_file)
        with finished_folder(self.vocabulary) as unfinished:
            for side in SIDES:
                shutil.copy(store.vocabulary_file(side), unfinished / f"{side}.model")

    def refuse_if_taken(self) -> None:
        """Do not begin where there is a run already."""
        if found := checkpoint.checkpoints(self.checkpoints):
            raise RunError(
                f"{self.folder}: there is a run already, at update {found[-1].step}; go on with --resume, or choose "
                "another folder with --out"
            )

    def refuse_if_changed(self, config: Config) -> None:
        """A run goes on with the settings it was begun with, but for a few that change nothing of what is learnt."""
        try:
            before = self.config()
        except ConfigError as error:
            raise RunError(f"{self.config_file}: cannot go on with it: {error}") from error
        changed = sorted(_differences(before.model_dump(), config.model_dump()) - FREE_TO_CHANGE)
        if changed:
            raise RunError(
                f"{self.folder}: {some(changed)} changed since this run began; resume with the old settings (they are "
                "in its config.yaml), or start a new run with --out"
            )


def _differences(left: Any, right: Any, key: str = "") -> set[str]:
    """The keys, 'section.key', at which two configurations differ. The raw text is not read any more: it may move."""
    if key == "data":
        left, right = ({k: v for k, v in side.items() if k in ("directions", "grouping")} for side in (left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping) and key.count(".") < 1:
        return {
            name
            for part in left.keys() | right.keys()
            for name in _differences(left.get(part), right.get(part), f"{key}.{part}".lstrip("."))
        }
    return set() if left == right else {key}


def open_prepared(config: Config, verify: bool = True) -> Store:
    """The store of a configuration; it must have been made for the same directions."""
    store = open_store(Path(config.store.folder), verify)
    wanted = sorted(direction.name for direction in config.data.directions)
    if sorted(store.directions) != wanted:
        other = set(wanted) ^ set(store.directions)
        raise RunError(
            f"{store.folder}: was prepared for other directions ({some(sorted(other))}); run `evenglot prepare`"
        )
    empty = [name for name, pairs in store.sizes.items() if not pairs]
    if empty:
        raise RunError(
            f"{store.folder}: nothing to train on for {some(empty)}; leave them out, or see `evenglot check`"
        )
    return store


def refuse_long_sentences(config: Config, store: Store) -> None:
    """The model has so many positions; the store may have been made with a higher limit."""
    for name in store.directions:
        for split in {"train", "valid"} & set(store.splits(name)):
            corpus = store.corpus(name, split)
            longest = max((int(side.lengths.max()) for side in (corpus.source, corpus.target) if len(side)), default=0)
            if longest > config.model.max_positions:
                raise RunError(
                    f"{store.folder}: {name} ({split}) has a sentence of {longest} pieces, the model has "
                    f"{config.model.max_positions} positions; raise model.max_positions or lower clean.max_pieces"
                )


def create_model(config: Config, store: Store) -> Transformer:
    """A new model; its weights follow from the seed."""
    import torch

    torch.manual_seed(int(generator(config.seed, "weights").integers(2**63)))
    return Transformer(shape_of(config, store.manifest["vocabulary"]["pieces"]))


def shape_of(config: Config, pieces: Mapping[str, int]) -> Shape:
    """The model that a configuration describes."""
    settings = config.model
    named = SIZES[settings.size]
    dropout = settings.dropout
    shared = settings.share_embeddings
    return Shape(
        source_pieces=pieces["source"],
        target_pieces=pieces["target"],
        dim=settings.dim or named["dim"],
        ffn=settings.ffn or named["ffn"],
        encoder_layers=settings.encoder_layers or named["encoder_layers"],
        decoder_layers=settings.decoder_layers or named["decoder_layers"],
        heads=settings.heads or named["heads"],
        dropout=dropout,
        attention_dropout=dropout if settings.attention_dropout is None else settings.attention_dropout,
        activation_dropout=dropout if settings.activation_dropout is None else settings.activation_dropout,
        max_positions=settings.max_positions,
        share_embeddings=config.vocabulary.kind == "joint" if shared is None else shared,
    )


def load_model(chosen: Checkpoint) -> Transformer:
    """The model of a checkpoint, ready to use."""
    content = chosen.read()
    model = Transformer(Shape(**content.state["shape"]))
    model.load_state_dict(content.model)
    return model.eval()
