"""Updates of a pretrained model beside Hugging Face's Seq2SeqTrainer: `python -m benchmarks.finetuning`.

Writes benchmarks/results/finetuning.md. Random M2M100 checkpoints, the same batches in the same order on both sides, in
turn in one process, with the same settings: AdamW, gradients clipped to 1, label smoothing 0.1, dropout 0.1, float32.
Ours includes sampling losses per direction and a balancing strategy that observes them; theirs logs nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.m2m_100.modeling_m2m_100 import shift_tokens_right

from evenglot.balance import create
from evenglot.batches.draw import all_pairs
from evenglot.batches.load import Batch, Loader, load
from evenglot.config import TrainSettings
from evenglot.directions import GroupMap
from evenglot.model.families import PretrainedConfig
from evenglot.model.pretrained import Pretrained
from evenglot.sequences import ParallelSequences, Sequences
from evenglot.training.optimizer import create_optimizer
from evenglot.training.parallel import Processes
from evenglot.training.step import Step

RESULT = Path(__file__).parent / "results" / "finetuning.md"
SIZES = {  # dimensions, layers on each side, feed-forward, heads, subwords, tokens of an update
    "tiny": (128, 2, 512, 4, 8_000, 1024),
    "mid-size": (512, 6, 2048, 8, 32_000, 1024),
}
NAMES = ("aa-en", "bb-en")
RATE, SMOOTHING, IGNORED, EOS, PAD = 1e-4, 0.1, -100, 2, 1


def checkpoint(size: str) -> Any:
    """A random model in training mode."""
    dim, layers, ffn, heads, subwords, _ = SIZES[size]
    torch.manual_seed(1)
    shape = {"encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": ffn, "decoder_ffn_dim": ffn}
    many = {"encoder_attention_heads": heads, "decoder_attention_heads": heads}
    rates = {"dropout": 0.1, "attention_dropout": 0.1, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    config = transformers.M2M100Config(vocab_size=subwords, d_model=dim, use_cache=False, **rates, **shape, **many)
    return transformers.M2M100ForConditionalGeneration(config).train()


def corpora(subwords: int, pairs: int = 2000) -> dict[str, ParallelSequences]:
    """Random sentences, as long as real ones are: about 20 subwords, few above 60."""
    random = np.random.default_rng(3)

    def side(lengths: np.ndarray) -> Sequences:
        ids = random.integers(4, subwords, int(lengths.sum())).astype(np.uint16)
        ends = np.cumsum(lengths)
        ids[ends - 1] = EOS
        return Sequences(ids, np.concatenate([[0], ends]))

    found = {}
    for name in NAMES:
        lengths = np.clip(random.lognormal(2.8, 0.5, pairs), 3, 80).astype(np.int64)
        found[name] = ParallelSequences(side(lengths), side(np.maximum(3, lengths + random.integers(-2, 3, pairs))))
    return found


class Ours:
    """Updates as `evenglot train` does them."""

    def __init__(self, size: str, loader: Loader) -> None:
        model = checkpoint(size)
        self.model = Pretrained(model, PretrainedConfig(Path(), model.config.to_dict()))
        optimizer = create_optimizer(self.model, TrainSettings(learning_rate=RATE))
        subwords = SIZES[size][4]
        self.step = Step(self.model, optimizer, Processes(), characters=torch.ones(subwords, dtype=torch.int64),
                         names=NAMES, smoothing=SMOOTHING, clip=1.0, seed=1)  # fmt: skip
        self.balancer = create("chi-ibr", dict.fromkeys(NAMES, 2000), rho=0.1)
        self.groups, self.loader = GroupMap({name: name for name in NAMES}), loader

    def timed(self, first: int, updates: int) -> float:
        started = process_time()
        for update in range(first, first + updates):
            tokens = self.loader.plan.target_tokens_in(update)
            seen, _ = self.step.train(update + 1, self.loader.update(update), tokens, self.balancer, self.groups)
            self.balancer.observe(*seen.by_direction(NAMES, "token"))
        return process_time() - started


class Stamps(transformers.TrainerCallback):
    """The CPU time at the beginning of each update."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.seconds.append(process_time())


class Theirs:
    """Updates of Seq2SeqTrainer."""

    def __init__(self, size: str, loader: Loader) -> None:
        self.model, self.loader = checkpoint(size), loader

    def timed(self, first: int, updates: int) -> float:
        stamps = Stamps()
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.Seq2SeqTrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=1,  # of updates: the collator makes the batch
                max_steps=updates + 1,  # from the beginning of the first to that of the last
                learning_rate=RATE,
                lr_scheduler_type="constant",
                adam_beta2=0.98,
                weight_decay=1e-4,
                optim="adamw_torch_fused",
                max_grad_norm=1.0,
                label_smoothing_factor=SMOOTHING,
                logging_strategy="no",
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
                log_level="error",
                remove_unused_columns=False,
                train_sampling_strategy="sequential",
            )
            trainer = transformers.Seq2SeqTrainer(
                model=self.model,
                args=arguments,
                train_dataset=list(range(first, first + updates + 1)),
                data_collator=self.collate,
                callbacks=[stamps],
            )
            trainer.train()
        return stamps.seconds[updates] - stamps.seconds[0]

    def collate(self, update: list[int]) -> dict[str, torch.Tensor]:
        (batch,) = self.loader.update(update[0])
        real = torch.arange(batch.target.size(1)) < batch.target_lengths[:, None]
        labels = batch.target.masked_fill(~real, IGNORED)
        seen = shift_tokens_right(labels, PAD, EOS)
        mask = (torch.arange(batch.source.size(1)) < batch.source_lengths[:, None]).long()
        return {"input_ids": batch.source, "attention_mask": mask, "labels": labels, "decoder_input_ids": seen}


def compare(size: str, rounds: int, updates: int) -> str:
    tokens = SIZES[size][5]
    texts = corpora(SIZES[size][4])
    pairs = all_pairs({name: len(text) for name, text in texts.items()})
    loader = load(texts, pairs, budget=tokens, pad=PAD, micro_batches=1)
    ours, theirs = Ours(size, loader), Theirs(size, loader)
    ours.timed(0, 1), theirs.timed(0, 1)
    seconds: list[tuple[float, float]] = []
    for number in range(rounds):
        first = 1 + number * updates
        seconds.append((ours.timed(first, updates), theirs.timed(first, updates)))
    batches: list[Batch] = [batch for k in range(1, 1 + rounds * updates) for batch in loader.update(k)]
    count = sum(float(batch.target_lengths.sum()) for batch in batches) / rounds
    ratios = sorted(b / a for a, b in seconds)
    parameters = sum(parameter.numel() for parameter in theirs.model.parameters()) / 1e6
    speeds = [count / statistics.median(each) for each in zip(*seconds, strict=True)]
    row = f"| {size} | {parameters:.1f} million | {speeds[0]:,.0f} | {speeds[1]:,.0f} "
    row += f"| {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {rounds} x {updates} |"
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of fine-tuning beside Seq2SeqTrainer")
    parser.add_argument("--size", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=4, help="updates of a round")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    lines = [
        "# Fine-tuning beside Seq2SeqTrainer",
        "",
        f"Made by `python -m benchmarks.finetuning` on {os.cpu_count()} cores ({platform.machine()}), Python",
        f"{platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, float32,",
        "one thread. Random M2M100 checkpoints, the same batches (1,024 tokens with padding) and settings, in turn in",
        "one process, beside other work. Target tokens per CPU second; ratio: their CPU time over ours in the same",
        "round: median, lowest and highest.",
        "",
        "| model | parameters | evenglot | Seq2SeqTrainer | ratio | rounds x updates |",
        "|:--|--:|--:|--:|--:|--:|",
        *(compare(size, asked.rounds, asked.updates) for size in asked.size),
    ]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
