"""The sections `model` and `train`: what is trained, for how long and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from evenglot.config.errors import Faults
from evenglot.config.section import Count, Finite, Section
from evenglot.model.sizes import SIZES

Fraction = Annotated[Finite, Field(ge=0, lt=1)]
Positive = Annotated[Finite, Field(gt=0)]
NotNegative = Annotated[Finite, Field(ge=0)]


class ModelSettings(Section):
    """The Transformer. What is null follows from `size`, or from the vocabulary."""

    size: Literal["tiny", "mini", "small", "base", "big"] = "base"
    dim: Count | None = None
    ffn: Count | None = None
    encoder_layers: Count | None = None
    decoder_layers: Count | None = None
    heads: Count | None = None
    dropout: Fraction = 0.3
    attention_dropout: Fraction | None = None
    activation_dropout: Fraction | None = None
    max_positions: Annotated[int, Field(ge=2, le=100_000)] = 512
    share_embeddings: bool | None = None

    def part(self, name: Literal["dim", "ffn", "encoder_layers", "decoder_layers", "heads"]) -> int:
        """What is said, or what the size says."""
        return getattr(self, name) or SIZES[self.size][name]

    def faults(self) -> Faults:
        """What does not fit together."""
        dim, heads = self.part("dim"), self.part("heads")
        if dim % 2 or dim < 4:
            yield ("model", "dim"), f"expected an even number, 4 or more, got {dim}"
        if dim % heads:
            yield ("model", "heads"), f"{heads} heads cannot share {dim} dimensions equally"


class TrainSettings(Section):
    """Length, optimizer, validation, checkpoints and machine."""

    updates: Count = 200_000
    intervals: Count | None = None

    learning_rate: Positive = 2e-4
    schedule: Literal["inverse-sqrt", "step", "linear", "constant"] = "inverse-sqrt"
    warmup: Annotated[int, Field(ge=0)] = 4000
    warmup_start: NotNegative = 1e-7
    decay: Annotated[Finite, Field(gt=0, le=1)] = 0.5
    decay_every: Count = 100_000
    cooldown: Annotated[int, Field(ge=0)] = 0

    betas: Annotated[tuple[Fraction, Fraction], Field(strict=False)] = (0.9, 0.98)
    epsilon: Positive = 1e-8
    weight_decay: NotNegative = 1e-4
    clip: Positive | None = None
    label_smoothing: Fraction = 0.1

    validate_every: Count | None = None
    select: Literal["pooled", "macro", "worst"] = "pooled"
    patience: Count | None = None
    chrf_sentences: Annotated[int, Field(ge=0)] = 0

    save_every: Count | None = None
    keep_last: Annotated[int, Field(ge=2)] = 2
    keep_best: Count = 1
    average: Annotated[int, Field(ge=2)] | None = None

    log_every: Count = 100
    warn_passes: Positive = 50.0
    trackers: Annotated[tuple[Literal["tensorboard", "wandb"], ...], Field(strict=False)] = ()

    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    threads: Count | None = None

    def faults(self) -> Faults:
        """What does not fit together."""
        if self.intervals is not None and (self.schedule == "linear" or self.cooldown):
            yield (
                ("train", "intervals"),
                f"{'schedule: linear' if self.schedule == 'linear' else 'cooldown'} must know the last update, and an "
                "interval has no fixed number of them; give train.updates instead",
            )
        if self.cooldown and self.warmup + self.cooldown > self.updates:
            yield (
                ("train", "cooldown"),
                f"warmup and cooldown together are longer than the run ({self.updates} updates)",
            )
        if self.average is not None and self.average > self.keep_last:
            yield ("train", "average"), f"only the last {self.keep_last} checkpoints are kept; raise keep_last"
        if self.precision != "auto" and self.precision != "float32" and self.device == "cpu":
            yield ("train", "precision"), "on a CPU training is in float32"
