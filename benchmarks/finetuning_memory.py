"""Memory and time of the loss with NLLB's vocabulary: `python -m benchmarks.finetuning_memory`.

Writes benchmarks/results/finetuning_memory.md. Needs about 7 GB of memory. The model is random; nothing is downloaded.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

import torch
import transformers
from transformers.models.m2m_100.modeling_m2m_100 import shift_tokens_right
from transformers.trainer_pt_utils import LabelSmoother

from benchmarks.loss_memory import MEGABYTE, peak_of
from evenglot.batches.load import Batch
from evenglot.model.families import PretrainedConfig
from evenglot.model.loss import batch_loss
from evenglot.model.pretrained import Pretrained

RESULT = Path(__file__).parent / "results" / "finetuning_memory.md"
VOCABULARY, DIM, SENTENCES, LENGTH = 256_206, 1024, 16, 32  # as NLLB-200; subwords of each sentence
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
CHECKPOINTED = {"encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
SMOOTHING = 0.1
LORA = {"rank": 16, "alpha": 32.0, "dropout": 0.0, "layers": "all"}


def model_of(vocabulary: int, dim: int, layers: dict[str, int], lora: dict[str, object] | None = None) -> Pretrained:
    torch.manual_seed(1)
    config = transformers.M2M100Config(vocab_size=vocabulary, d_model=dim, dropout=0.0, **layers, **HEADS)
    made = transformers.M2M100ForConditionalGeneration(config)
    return Pretrained(made, PretrainedConfig(Path(), config.to_dict()), lora).train()


def batch_of(vocabulary: int, sentences: int, length: int) -> Batch:
    ids = torch.randint(4, vocabulary, (2, sentences, length), generator=torch.Generator().manual_seed(2))
    lengths = torch.full((sentences,), length)
    return Batch(ids[0], ids[1], lengths, lengths, torch.zeros(sentences, dtype=torch.int64))


def ours(model: Pretrained, batch: Batch) -> None:
    batch_loss(model, batch, torch.full((len(batch.source),), 1 / batch.target.numel()), SMOOTHING).objective.backward()


def theirs(model: Pretrained, batch: Batch, smoothing: float) -> None:
    """As Seq2SeqTrainer: with label smoothing, the model computes logits only."""
    if smoothing:
        seen = shift_tokens_right(batch.target, model.symbols.pad, model.config.decoder_start)
        result = model.model(input_ids=batch.source, decoder_input_ids=seen, use_cache=False)
        LabelSmoother(smoothing)(result, batch.target).backward()
    else:
        model.model(input_ids=batch.source, labels=batch.target, use_cache=False).loss.backward()


def measured(way: Callable[[Pretrained, Batch], None], model: Pretrained, batch: Batch) -> tuple[float, float]:
    """Peak memory beyond the weights in MB, and CPU seconds of a second time, when nothing has to be set up."""
    peak = peak_of(partial(way, model, batch)) / MEGABYTE
    model.zero_grad()
    started = process_time()
    way(model, batch)
    seconds = process_time() - started
    model.zero_grad()
    return peak, seconds


def loss_rows() -> list[str]:
    model, batch = model_of(VOCABULARY, DIM, SMALL), batch_of(VOCABULARY, SENTENCES, LENGTH)
    found = {
        "transformers, label smoothing 0.1": measured(partial(theirs, smoothing=SMOOTHING), model, batch),
        "transformers, no label smoothing": measured(partial(theirs, smoothing=0.0), model, batch),
        "evenglot, label smoothing 0.1": measured(ours, model, batch),
    }
    del model
    adapted = model_of(VOCABULARY, DIM, SMALL, LORA)
    found["evenglot, label smoothing 0.1, `model.lora`"] = measured(ours, adapted, batch)
    return [f"| {name} | {peak:,.0f} | {seconds:.1f} |" for name, (peak, seconds) in found.items()]


def checkpointing_rows() -> list[str]:
    rows = []
    batch = batch_of(8000, 32, 32)
    for name, lora in {"all weights": None, "`model.lora`": LORA}.items():
        model = model_of(8000, 512, CHECKPOINTED, lora)
        plain = measured(ours, model, batch)
        model.recompute_layers()
        again = measured(ours, model, batch)
        rows.append(f"| {name} | {plain[0]:,.0f} | {again[0]:,.0f} | {plain[1]:.1f} | {again[1]:.1f} |")
    return rows


def main() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    lines = [
        "# Memory of fine-tuning",
        "",
        f"Made by `python -m benchmarks.finetuning_memory` on {os.cpu_count()} cores ({platform.machine()}), Python",
        f"{platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, float32,",
        "one thread. Random M2M100 models. Peak: what torch has allocated at most at a time, beyond the weights;",
        "gradients are in it. Seconds: CPU time of one forward and backward pass, beside other work.",
        "",
        "## The loss with the vocabulary of NLLB",
        "",
        f"{VOCABULARY:,} subwords, {DIM} dimensions, one small layer on each side, {SENTENCES} sentences of {LENGTH} "
        "subwords. The gradient",
        f"of the embedding, which evenglot does not need with adapters, is {VOCABULARY * DIM * 4 / MEGABYTE:,.0f} MB.",
        "",
        "| loss | peak, MB | CPU seconds |",
        "|:--|--:|--:|",
        *loss_rows(),
        "",
        "## Gradient checkpointing",
        "",
        "6 + 6 layers of 512 dimensions, 8,000 subwords, 32 sentences of 32 subwords.",
        "",
        "| trained | peak, MB | with gradient checkpointing | CPU seconds | with gradient checkpointing |",
        "|:--|--:|--:|--:|--:|",
        *checkpointing_rows(),
    ]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
