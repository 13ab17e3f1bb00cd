"""Ids of the special symbols: in our own vocabularies always the same, in those of pretrained models their own."""

from __future__ import annotations

from dataclasses import dataclass

EOS, UNK, PAD = 0, 1, 2  # </s>, <unk>, <pad>; the same on both sides, because exported models share them


@dataclass(frozen=True)
class Symbols:
    """The ids that batches and search need: end of sentence and padding."""

    eos: int = EOS
    pad: int = PAD


OURS = Symbols()
