"""Named model sizes. Does not import torch, so that configurations can be checked quickly."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypedDict


class Size(TypedDict):
    """The fields of `Shape` that a named size sets."""

    dim: int
    ffn: int
    encoder_layers: int
    decoder_layers: int
    heads: int


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "tiny": Size(dim=128, ffn=512, encoder_layers=2, decoder_layers=2, heads=4),
        "mini": Size(dim=256, ffn=1024, encoder_layers=3, decoder_layers=3, heads=4),
        "small": Size(dim=512, ffn=1024, encoder_layers=6, decoder_layers=6, heads=4),
        "base": Size(dim=512, ffn=2048, encoder_layers=6, decoder_layers=6, heads=8),
        "big": Size(dim=1024, ffn=4096, encoder_layers=6, decoder_layers=6, heads=16),
    }
)
