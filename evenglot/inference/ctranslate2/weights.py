"""Map the weights of a model to CTranslate2's names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from evenglot.inference.ctranslate2.package import package
from evenglot.model.layers import CrossAttention, DecoderLayer, EncoderLayer, FeedForward, SelfAttention
from evenglot.model.transformer import Decoder, Encoder, Transformer
from evenglot.symbols import EOS, PAD

RULED_OUT = -1e4  # bias of <pad> in the output layer: excludes it from the softmax, as evenglot.model.search does


def convert(
    model: Transformer,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write a model to an existing folder in CTranslate2's format; subwords are given in the order of their ids.

    `quantization`: CTranslate2's type of the weights; None keeps float32. The converted model expects source sentences
    with tag and </s>; it adds neither.
    """
    _check_pieces("source", source_pieces, model.shape.source_pieces)
    _check_pieces("target", target_pieces, model.shape.target_pieces)
    spec = _spec_of(model)
    spec.register_source_vocabulary(list(source_pieces))
    spec.register_target_vocabulary(list(target_pieces))
    spec.validate()
    spec.optimize(quantization)  # also stores equal weights only once
    spec.save(str(folder))


def _check_pieces(side: str, pieces: Sequence[str], expected: int) -> None:
    """Raise ValueError unless size and </s> fit the model and all names, by which CTranslate2 looks up, are unique."""
    if len(pieces) != expected:
        raise ValueError(f"{side} vocabulary: {len(pieces)} subwords, but the model has {expected}")
    if len(set(pieces)) != len(pieces):
        raise ValueError(f"{side} vocabulary: duplicate subwords")
    if pieces[EOS] != "</s>":
        raise ValueError(f"{side} vocabulary: expected </s> at id {EOS}, found {pieces[EOS]!r}")


def _spec_of(model: Transformer) -> Any:
    """The CTranslate2 specification of the model, without vocabularies."""
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
    _fill_linear(spec.linear[0], attention.qkv)  # same row order: queries, keys, values
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
    """A float32 copy, because conversion to int8 overwrites its input."""
    copied: NDArray[np.float32] = tensor.detach().cpu().float().numpy().copy()
    return copied
