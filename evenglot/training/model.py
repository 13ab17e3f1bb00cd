"""Creates the model of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.model.interface import TranslationModel
from evenglot.model.pretrained import load_pretrained
from evenglot.model.transformer import Shape, Transformer
from evenglot.seeding import generator


def create_model(config: Config, store: Store) -> TranslationModel:
    """A pretrained model, or a new one with weights initialised from the seed."""
    if config.model.init is not None:
        return load_pretrained(Path(config.model.init), config.model.dropouts)
    torch.manual_seed(int(generator(config.seed, "weights").integers(2**63)))
    return Transformer(shape_of(config, store.manifest["vocabulary"]["pieces"]))


def shape_of(config: Config, pieces: Mapping[str, int]) -> Shape:
    """Model dimensions from the configuration and the vocabulary sizes."""
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
