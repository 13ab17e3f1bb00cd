"""The weights of a model under the names that CTranslate2 has for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from evenglot.inference.ctranslate2.package import package
from evenglot.model.transformer import (
    CrossAttention,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    SelfAttention,
    Transformer,
)
from evenglot.symbols import EOS, PAD

RULED_OUT = -1e4  # bias of <pad> in the output layer: the softmax leaves it out, as evenglot.model.search does


def convert(
    model: Transformer,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write a model into a folder that is there, in the format of CTranslate2; pieces are in the order of their ids.

    `quantization`: a type of CTranslate2 for the weights; None leaves them in float32. Whoever uses the model gives
    source sentences complete, with their tag and </s>.
    """
    _check_pieces("source", source_pieces, model.shape.source_pieces)
    _check_pieces("target", target_pieces, model.shape.target_pieces)
    spec = _spec_of(model)
    spec.register_source_vocabulary(list(source_pieces))
    spec.register_target_vocabulary(list(target_pieces))
    spec.validate()
    spec.optimize(quantization)  # also finds weights that are the same, and stores them once
    spec.save(str(folder))


def _check_pieces(side: str, pieces: Sequence[str], expected: int) -> None:
    """CTranslate2 finds pieces by name: each must have one of its own."""
    if len(pieces) != expected:
        raise ValueError(f"{side} pieces: the model has {expected}, the vocabulary {len(pieces)}")
    if len(set(pieces)) != len(pieces):
        raise ValueError(f"{side} pieces: some are there twice")
    if pieces[EOS] != "</s>":
        raise ValueError(f"{side} pieces: expected </s> to be number {EOS}, found {pieces[EOS]!r}")


def _spec_of(model: Transformer) -> Any:
    """The model in CTranslate2's terms, but for the vocabularies."""
    shape = model.shape
    layers = (shape.encoder_layers, shape.decoder_layers)
    specs = package().specs
    spec = specs.TransformerSpec.from_config(layers, shape.heads, pre_norm=True, layernorm_embedding=True)
    source = model.target_embedding if model.source_embedding is None else model.source_embedding
    spec.encoder.embeddings[0].weight = _array(source.weight)
    spec.decoder.embeddings.weight = _array(model.target_embedding.weight)
    spec.decoder.projection.weight = _array(model.output_embedding)
    spec.decoder.projection.bias = np.zeros(shape.target_pieces, dtype=np.float32)
    spec.decoder.projection.bias[PAD] = RULED_OUT
    _fill_side(spec.encoder, model.encoder, model.positions)
    _fill_side(spec.decoder, model.decoder, model.positions)
    spec.config.add_source_eos = False
    spec.config.decoder_start_token = spec.config.bos_token = spec.config.eos_token = "</s>"
    spec.config.unk_token = "<unk>"
    spec.config.layer_norm_epsilon = model.encoder.final_norm.eps
    return spec


def _fill_side(spec: Any, side: Encoder | Decoder, positions: Tensor) -> None:
    spec.scale_embeddings = True
    spec.position_encodings.encodings = _array(positions)
    _fill_norm(spec.layernorm_embedding, side.embedding_norm)
    _fill_norm(spec.layer_norm, side.final_norm)
    for layer_spec, layer in zip(spec.layer, side.layers, strict=True):
        assert isinstance(layer, EncoderLayer | DecoderLayer)  # for mypy
        _fill_self_attention(layer_spec.self_attention, layer.self_attention_norm, layer.self_attention)
        if isinstance(layer, DecoderLayer):
            _fill_cross_attention(layer_spec.attention, layer.cross_attention_norm, layer.cross_attention)
        _fill_feed_forward(layer_spec.ffn, layer.feed_forward_norm, layer.feed_forward)


def _fill_self_attention(spec: Any, norm: nn.LayerNorm, attention: SelfAttention) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear[0], attention.qkv)  # rows in the same order: queries, keys, values
    _fill_linear(spec.linear[1], attention.output)


def _fill_cross_attention(spec: Any, norm: nn.LayerNorm, attention: CrossAttention) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear[0], attention.query)
    _fill_linear(spec.linear[1], attention.kv)
    _fill_linear(spec.linear[2], attention.output)


def _fill_feed_forward(spec: Any, norm: nn.LayerNorm, layer: FeedForward) -> None:
    _fill_norm(spec.layer_norm, norm)
    _fill_linear(spec.linear_0, layer.expand)
    _fill_linear(spec.linear_1, layer.contract)


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _fill_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """A copy: conversion to int8 overwrites what it is given."""
    copied: NDArray[np.float32] = tensor.detach().cpu().float().numpy().copy()
    return copied
