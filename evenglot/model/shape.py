"""The dimensions of a Transformer, checked before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass

from evenglot.symbols import PAD

MOST_POSITIONS = 100_000
LARGEST = 10_000_000  # of any other dimension


@dataclass(frozen=True)
class Shape:
    """Everything needed to build a model: Shape(source_pieces=30_000, target_pieces=10_000, **SIZES["base"]).

    `source_pieces`, `target_pieces`: vocabulary sizes. `share_embeddings`: one joint vocabulary and embedding for both.
    """

    source_pieces: int
    target_pieces: int
    dim: int
    ffn: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    dropout: float = 0.3
    attention_dropout: float = 0.3
    activation_dropout: float = 0.3
    max_positions: int = 512
    share_embeddings: bool = False

    def __post_init__(self) -> None:
        at_least = {"source_pieces": PAD + 1, "target_pieces": PAD + 1, "dim": 4}
        for name in ("ffn", "encoder_layers", "decoder_layers", "heads", "max_positions"):
            at_least[name] = 1
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
            most = MOST_POSITIONS if name == "max_positions" else LARGEST
            if getattr(self, name) > most:
                raise ValueError(f"{name}: expected at most {most:,}, got {getattr(self, name)}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 0 <= {name} < 1, got {getattr(self, name)}")
        if self.dim % 2:
            raise ValueError(f"dim: expected an even number (half of it sines, half cosines), got {self.dim}")
        if self.dim % self.heads:
            raise ValueError(f"heads: expected a divisor of dim = {self.dim}, got {self.heads}")
        if self.share_embeddings and self.source_pieces != self.target_pieces:
            raise ValueError(
                "share_embeddings: requires one vocabulary for both sides, "
                f"got source_pieces = {self.source_pieces} and target_pieces = {self.target_pieces}"
            )
