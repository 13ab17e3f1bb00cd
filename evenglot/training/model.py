"""Creates the model of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.model import families
from evenglot.model.families import is_run
from evenglot.model.interface import TranslationModel
from evenglot.model.pretrained import load_pretrained
from evenglot.model.shape import Shape
from evenglot.model.transformer import Transformer
from evenglot.runs.checkpoint import fingerprint
from evenglot.runs.run import Run, RunError
from evenglot.seeding import generator
from evenglot.training.continuation import continued


def create_model(config: Config, store: Store) -> TranslationModel:
    """A pretrained model, that of another run, or a new one with weights initialised from the seed."""
    torch.manual_seed(int(generator(config.seed, "weights").integers(2**63)))
    model: TranslationModel
    if config.model.init is None:
        model = Transformer(shape_of(config, store.manifest["vocabulary"]))
    elif is_run(Path(config.model.init)):
        model = continued(Run(Path(config.model.init)), store, config.model.dropouts)
    else:
        lora = None if config.model.lora is None else config.model.lora.plain()
        model = load_pretrained(Path(config.model.init), config.model.dropouts, lora)
    if config.train.gradient_checkpointing:
        model.recompute_layers()
    return model


def init_fingerprint(config: Config) -> str | None:
    """A short hash of the model in `model.init`; None without."""
    if config.model.init is None:
        return None
    folder = Path(config.model.init)
    return fingerprint(Run(folder).best()) if is_run(folder) else families.fingerprint(folder)


def shape_of(config: Config, vocabulary: Mapping[str, Any]) -> Shape:
    """Model dimensions from the configuration, and the vocabularies as the manifest of a store describes them."""
    settings = config.model
    dropout = settings.dropout
    is_joint, pieces = vocabulary["kind"] == "joint", vocabulary["pieces"]
    if settings.share_embeddings and not is_joint:
        raise RunError("model.share_embeddings: separate vocabularies cannot share embeddings; remove this key")
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
        share_embeddings=is_joint if settings.share_embeddings is None else settings.share_embeddings,
    )
