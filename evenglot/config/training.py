"""The sections `model` and `train`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from evenglot.config.errors import Faults
from evenglot.config.section import Count, FilePath, Finite, Section, key, keys_of
from evenglot.model.sizes import SIZES

Fraction = Annotated[Finite, Field(ge=0, lt=1)]
Positive = Annotated[Finite, Field(gt=0)]
NotNegative = Annotated[Finite, Field(ge=0)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Depth = Annotated[int, Field(ge=1, le=1_000)]


DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


class LoraSettings(Section):
    """Adapters of a pretrained model."""

    rank: Annotated[int, Field(ge=1, le=4096)] = key(16, "Rank of the product of two matrices that each adapter is.")
    alpha: Positive | None = key(None, "Adapters are multiplied by alpha / rank; null: twice the rank.")
    dropout: Fraction = key(0.0, "Dropout rate of the inputs of adapters.")
    layers: Literal["all", "attention"] = key("all", "Linear layers with an adapter: all, or those of attention only.")

    def plain(self) -> dict[str, Any]:
        """Plain values, all filled in."""
        return {**self.model_dump(), "alpha": self.alpha or 2.0 * self.rank}


class ModelSettings(Section):
    """The Transformer. A null dimension follows from `size`."""

    size: Literal["tiny", "mini", "small", "base", "big"] = key(
        "base",
        """\
tiny (128 dimensions, 2+2 layers), mini (256, 3+3), small (512, 6+6, feed-forward 1024, 4 heads), base (512, 6+6,
feed-forward 2048, 8 heads; used in the paper) or big (1024, 6+6, feed-forward 4096, 16 heads).""",
    )
    dim: Width | None = key(None, "Model dimension; even, and divisible by heads.")
    ffn: Width | None = key(None, "Dimension of the feed-forward layers.")
    encoder_layers: Depth | None = key(None, "Number of encoder layers.")
    decoder_layers: Depth | None = key(None, "Number of decoder layers.")
    heads: Width | None = key(None, "Number of attention heads.")
    dropout: Fraction = key(0.3, "Dropout rate; 0.3 in the paper, 0.1 suits large corpora.")
    attention_dropout: Fraction | None = key(None, "Dropout of attention weights; null: same as dropout.")
    activation_dropout: Fraction | None = key(None, "Dropout inside feed-forward layers; null: same as dropout.")
    max_positions: Annotated[int, Field(ge=2, le=100_000)] = key(
        512, "Maximum sentence length in subwords, including the language tag and end of sentence."
    )
    share_embeddings: bool | None = key(None, "Share source and target embeddings; null: if the vocabulary is joint.")
    init: FilePath | None = key(
        None,
        "Folder of a pretrained Hugging Face checkpoint (M2M100/NLLB, mBART, Marian, T5/MADLAD) to fine-tune with its "
        "own tokenizer, or of a run to continue from its best checkpoint with its vocabulary, on the same or other "
        "languages. It determines all other keys of this section; dropout rates are its own unless set.",
        resume="free",  # the folder may move; its content may not change
        group="",
    )
    lora: LoraSettings | None = key(
        None,
        f"""\
With init: train low-rank adapters (LoRA) instead of all weights; `lora: {{}}` for the defaults. Needs the package
peft: pip install "evenglot[lora]". Keys:
{keys_of(LoraSettings)}""",
        group="",
    )

    def part(self, name: Literal["dim", "ffn", "encoder_layers", "decoder_layers", "heads"]) -> int:
        """A dimension of the model: as configured, or as given by `size`."""
        return getattr(self, name) or SIZES[self.size][name]

    @property
    def dropouts(self) -> dict[str, float]:
        """The dropout rates that were set, by their names in transformers; others stay those of the checkpoint."""
        found = {name: getattr(self, name) for name in DROPOUTS if name in self.model_fields_set}
        rates = {name: rate for name, rate in found.items() if rate is not None}
        return rates | ({"dropout_rate": rates["dropout"]} if "dropout" in rates else {})  # its name in T5

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """With `init`, keys that were not set have no meaning and are left out."""
        content: dict[str, Any] = serialize(self)
        if self.init is None:
            return content
        return {name: value for name, value in content.items() if name in self.model_fields_set}

    def faults(self) -> Faults:
        """Contradictions between settings."""
        if self.init is not None:
            for name in sorted(self.model_fields_set - {"init", "lora", *DROPOUTS}):
                yield ("model", name), "the checkpoint in model.init determines it; remove this key"
            return
        if self.lora is not None:
            yield ("model", "lora"), "only a pretrained model has adapters; set model.init"
        dim, heads = self.part("dim"), self.part("heads")
        if dim % 2 or dim < 4:
            yield ("model", "dim"), f"expected an even number, 4 or more, got {dim}"
        if dim % heads:
            yield ("model", "heads"), f"{dim} dimensions are not divisible by {heads} heads"


class TrainSettings(Section):
    """Length of the run, optimizer, validation, checkpoints and hardware."""

    updates: Count = key(
        200_000,
        "Length of the run in optimizer updates. The paper: 200,000 for TED, 300,000 for WMT.",
        resume="free",
        ends_run=True,
    )
    intervals: Count | None = key(
        None,
        "Length of the run in intervals (batches.interval_pairs); the first limit reached ends it.",
        resume="free",
        ends_run=True,
    )

    learning_rate: Positive = key(
        2e-4,
        "Peak learning rate; use more for small models and batches, such as 2e-3 for size tiny.",
        resume="remedy",
        group="""\
The learning rate rises linearly for `warmup` updates. Then it depends on the schedule:
    inverse-sqrt   decays with the inverse square root of the update
    step           is multiplied by `decay` every `decay_every` updates; the paper's schedule for chi-IBR
    linear         decays linearly to 0 at the end of the run
    constant       stays constant, then decays linearly to 0 over the last `cooldown` updates""",
    )
    schedule: Literal["inverse-sqrt", "step", "linear", "constant"] = key(
        "inverse-sqrt", "inverse-sqrt, step, linear or constant."
    )
    warmup: Annotated[int, Field(ge=0)] = key(4000, "Number of warmup updates.", resume="remedy")
    warmup_start: NotNegative = key(1e-7, "Learning rate at the start of warmup.")
    decay: Annotated[Finite, Field(gt=0, le=1)] = key(0.5, "Decay factor of schedule step.")
    decay_every: Count = key(100_000, "Updates between two decays of schedule step.")
    cooldown: Annotated[int, Field(ge=0)] = key(0, "Updates of the final decay of schedule constant.")

    betas: Annotated[tuple[Fraction, Fraction], Field(strict=False)] = key((0.9, 0.98), "AdamW betas.", group="")
    epsilon: Positive = key(1e-8, "AdamW epsilon.")
    weight_decay: NotNegative = key(1e-4, "AdamW weight decay.")
    clip: Positive | None = key(None, "Maximum gradient norm; null: no clipping.", resume="remedy")
    label_smoothing: Fraction = key(0.1, "Label smoothing; also part of the losses that balancing strategies observe.")

    validate_every: Count | None = key(
        None,
        "Updates between validations; null: after each interval, or once per pass over the data if the strategy "
        "has short intervals by default.",
        group="",
    )
    select: Literal["pooled", "macro", "worst"] = key(
        "pooled",
        "Validation loss that selects the best checkpoint: mean over all tokens (pooled; as in the paper), mean over "
        "directions (macro), or largest of all directions (worst).",
    )
    patience: Count | None = key(
        None, "Stop after this many validations without improvement.", resume="free", ends_run=True
    )
    chrf_sentences: Annotated[int, Field(ge=0)] = key(
        0, "Validation sentences of each direction to translate greedily and score with chrF.", resume="free"
    )

    save_every: Count | None = key(
        None,
        "Updates between checkpoints, in addition to one after each validation and each interval (or pass, as for "
        "validate_every).",
        resume="free",
        group="",
    )
    keep_last: Annotated[int, Field(ge=2)] = key(
        2, "Number of latest checkpoints to keep; at least 2, in case one is damaged.", resume="free"
    )
    keep_best: Count = key(1, "Number of checkpoints with the best validation loss to keep.", resume="free")
    average: Annotated[int, Field(ge=2)] | None = key(
        None, "At the end, also average the weights of this many latest checkpoints.", resume="free"
    )

    log_every: Count = key(
        100, "Updates between two progress records in log.jsonl.", resume="free", grid="free", group=""
    )
    warn_passes: Positive = key(
        50.0, "Warn when a corpus has been sampled more than this many times.", resume="free", grid="free"
    )
    trackers: Annotated[tuple[Literal["tensorboard", "wandb", "trackio", "mlflow"], ...], Field(strict=False)] = key(
        (), "tensorboard, wandb, trackio, mlflow: also send them the numbers of log.jsonl.", resume="free", grid="free"
    )

    device: Literal["auto", "cpu", "cuda", "mps"] = key(
        "auto",
        "cpu, cuda or mps (GPUs of Apple, in float32); auto: cuda if available, otherwise cpu.",
        resume="free",
        grid="free",
        group="",
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = key(
        "auto",
        "float32, bfloat16 or float16 (not on a CPU); auto: bfloat16 on GPUs that support it, otherwise float32.",
        resume="free",
    )
    parallel: Literal["auto", "flat", "ddp", "fsdp"] = key(
        "auto",
        "How processes started by torchrun share an update: flat (gradients summed after the backward pass), ddp "
        "(during it), fsdp (each keeps a part of weights and optimizer state); auto: flat on CPUs, ddp on GPUs.",
        resume="free",
        grid="free",
    )
    timeout: Positive = key(
        10.0,
        "Minutes that processes wait for one of them that does not answer, before the run ends with its number.",
        resume="free",
        grid="free",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = key(
        None,
        "CPU threads; null: OMP_NUM_THREADS, or all cores, divided among the processes.",
        resume="free",
        grid="free",
    )

    gradient_checkpointing: bool = key(
        False,
        """\
Keep only the inputs of layers and compute the rest again for the gradient: the same results with less memory and
about a third more time.""",
        resume="free",
        grid="free",
        group="",
    )

    def faults(self) -> Faults:
        """Contradictions between settings."""
        if self.intervals is not None and (self.schedule == "linear" or self.cooldown):
            yield (
                ("train", "intervals"),
                f"{'schedule: linear' if self.schedule == 'linear' else 'cooldown'} needs the number of updates of the "
                "run, which does not follow from a number of intervals; set train.updates instead",
            )
        if self.cooldown and self.warmup + self.cooldown > self.updates:
            yield (
                ("train", "cooldown"),
                f"warmup and cooldown are together longer than the run ({self.updates} updates)",
            )
        if self.average is not None and self.average > self.keep_last:
            yield ("train", "average"), f"only the last {self.keep_last} checkpoints are kept; raise keep_last"
        if self.precision == "float16" and self.device == "cpu":
            yield ("train", "precision"), "float16 is not supported on a CPU; set it to auto, float32 or bfloat16"
        if self.precision not in ("auto", "float32") and self.device == "mps":
            yield ("train", "precision"), "with device: mps, only float32 is supported; set it to auto or float32"
