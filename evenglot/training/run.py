"""A run is a folder a person can read: config.yaml, log.jsonl, checkpoints/, vocabulary/, baseline.json, ...

This file knows where things are in it, whether a new run may begin there, and how to get the model out.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evenglot.balance import Balancer, Signal
from evenglot.balance.baseline import baseline_about
from evenglot.batches.draw import generator
from evenglot.config import BalanceSettings, Config, ConfigError, load_config
from evenglot.config.data import SPLITS
from evenglot.config.errors import some
from evenglot.config.models import HEADING
from evenglot.corpus.store import CONFIG, Store, open_store
from evenglot.corpus.vocabulary import SIDES
from evenglot.files import finished_folder
from evenglot.model.transformer import Shape, Transformer
from evenglot.training import checkpoint
from evenglot.training.checkpoint import Checkpoint
from evenglot.training.log import read_log

# Keys that may change when a run goes on. The first decide when it ends, what is kept and shown, and where it runs.
FREE_TO_CHANGE = {
    "store.folder",
    "store.threads",
    "train.updates",
    "train.intervals",
    "train.patience",
    "train.chrf_sentences",
    "train.save_every",
    "train.keep_last",
    "train.keep_best",
    "train.average",
    "train.log_every",
    "train.warn_passes",
    "train.trackers",
    "train.device",
    "train.precision",
    "train.threads",
}
REMEDIES = {"train.learning_rate", "train.warmup", "train.clip"}  # for a run that diverged; they change what is learnt


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
        if self.config().balance.reference_mixture is not None:
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
        """Do not begin where there is a run already, or anything else that would be written over."""
        if found := checkpoint.checkpoints(self.checkpoints):
            raise RunError(
                f"{self.folder}: there is a run already, at update {found[-1].step}; go on with --resume, or choose "
                "another folder with --out"
            )
        self.refuse_if_emptied()
        written = self.config_file.read_text(encoding="utf-8") if self.config_file.exists() else None
        logged = self.log_file.exists() and self.log_file.stat().st_size > 0  # empty: of a run that could not begin
        if (written is not None and not written.startswith(HEADING)) or (written is None and logged):
            raise RunError(f"{self.folder}: has files that no run wrote; choose a folder of its own with --out")

    def refuse_if_emptied(self) -> None:
        """A run that ended, and whose checkpoints somebody removed, cannot go on; its record must not be lost."""
        if any(self.checkpoints.glob("*")) or not self.log_file.exists():
            return
        if any(event["event"] == "done" for event in read_log(self.log_file)):
            raise RunError(
                f"{self.folder}: there is a run already, whose checkpoints were removed; choose another folder, with "
                "--out"
            )

    def changes(self, config: Config) -> set[str]:
        """The keys, 'section.key', in which a configuration differs from the one this run was begun with."""
        try:
            before = self.config()
        except ConfigError as error:
            raise RunError(f"{self.config_file}: cannot go on with it: {error}") from error
        return differences(_comparable(before), _comparable(config))

    def refuse_if_changed(self, config: Config) -> None:
        """A run goes on with the settings it was begun with, but for a few."""
        free = FREE_TO_CHANGE | REMEDIES
        if config.train.schedule == "linear" or config.train.cooldown:
            free -= {"train.updates"}  # the rate is a function of it
        if changed := sorted(self.changes(config) - free):
            raise RunError(
                f"{self.folder}: {some(changed)} changed since this run began; resume with the old settings (they are "
                "in its config.yaml), or start a new run with --out"
            )


def _comparable(config: Config) -> dict[str, Any]:
    """What matters of a configuration; the raw text is not read any more, so it may have moved."""
    content = config.model_dump()
    content["data"] = {"directions": config.data.groups, "grouping": config.data.grouping}
    return content


def differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> set[str]:
    """The keys, 'section.key', at which two configurations, or some of their sections, differ."""
    found = set()
    for name in left.keys() | right.keys():
        mine, other = left.get(name), right.get(name)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            found |= {f"{name}.{key}" for key in mine.keys() | other.keys() if mine.get(key) != other.get(key)}
        elif mine != other:
            found.add(name)
    return found


def open_prepared(config: Config, verify: bool = True) -> Store:
    """The store of a configuration; it must have been made for the same directions."""
    store = open_store(Path(config.store.folder), verify)
    wanted = sorted(direction.name for direction in config.data.directions)
    if sorted(store.directions) != wanted:
        other = set(wanted) ^ set(store.directions)
        raise RunError(
            f"{store.folder}: was prepared for other directions ({some(sorted(other))}); run `evenglot prepare`"
        )
    made = load_config(store.folder / CONFIG, check_files=False)
    sections = ("clean", "vocabulary")
    changed = differences(made.model_dump(include=set(sections)), config.model_dump(include=set(sections)))
    if changed:
        raise RunError(f"{store.folder}: was prepared with another {some(sorted(changed))}; run `evenglot prepare`")
    empty = [name for name, pairs in store.sizes.items() if not pairs]
    if empty:
        raise RunError(
            f"{store.folder}: nothing to train on for {some(empty)}; leave them out, or see `evenglot check`"
        )
    return store


def refuse_other_text(config: Config, store: Store) -> None:
    """Training must see what the configuration says, not what an earlier one said."""
    made = load_config(store.folder / CONFIG, check_files=False)
    keys = {"data": {"invalid_utf8", "tsv_columns"}, "store": {"valid_cap", "seed"}}
    changed = differences(made.model_dump(include=keys), config.model_dump(include=keys))
    if changed:
        raise RunError(f"{store.folder}: was prepared with another {some(sorted(changed))}; run `evenglot prepare`")


def other_paths(config: Config, store: Store) -> list[str]:
    """Splits whose text the configuration has elsewhere than the store was made from: moved, or another."""
    made = load_config(store.folder / CONFIG, check_files=False)
    return [
        f"data.{split}"
        for split in SPLITS
        if any(config.data.files(d, split) != made.data.files(d, split) for d in config.data.directions)
    ]


def refuse_without_validation(balancer: Balancer, store: Store) -> None:
    """Some strategies listen to validation losses, or compare with validation gradients."""
    listens = balancer.signal is not None and balancer.signal.split == "valid"
    if listens or balancer.needs_gradients is not None:
        missing = [name for name in store.directions if "valid" not in store.splits(name)]
        if missing:
            raise RunError(
                f"{store.folder}: the strategy needs validation text, and {some(missing)} has none in the store"
            )


def refuse_other_baseline(balance: BalanceSettings, signal: Signal | None, smoothing: float) -> None:
    """Baselines of tokens are no reference for characters, nor those of training for validation."""
    file = balance.options.get("baseline")
    if not isinstance(file, str) or signal is None:
        return
    about = baseline_about(file)
    wanted = {"split": signal.split, "unit": signal.unit, "label_smoothing": smoothing}
    for key, value in wanted.items():
        if about.get(key, value) != value:
            raise RunError(
                f"{file}: these baselines have {key} {about[key]!r}, this run needs {value!r}; see `evenglot baseline`"
            )


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
    torch.manual_seed(int(generator(config.seed, "weights").integers(2**63)))
    return Transformer(shape_of(config, store.manifest["vocabulary"]["pieces"]))


def shape_of(config: Config, pieces: Mapping[str, int]) -> Shape:
    """The model that a configuration describes."""
    settings = config.model
    dropout = settings.dropout
    shared = settings.share_embeddings
    return Shape(
        source_pieces=pieces["source"],
        target_pieces=pieces["target"],
        dim=settings.part("dim"),
        ffn=settings.part("ffn"),
        encoder_layers=settings.part("encoder_layers"),
        decoder_layers=settings.part("decoder_layers"),
        heads=settings.part("heads"),
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
