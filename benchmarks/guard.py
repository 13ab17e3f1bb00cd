"""Has training become slower? `python -m benchmarks.guard` measures it and adds a line to results/guard.jsonl.

Seconds depend on the machine and on what else it does, so the measure is a ratio: CPU time of a bare PyTorch step over
that of a step of `evenglot train`, on the same batches, in turn in the same process. The bare step has nothing of ours
and does not change with our code: torch.nn.Transformer, torch.nn.functional.cross_entropy and AdamW, in float32. Above
1, we are faster. Compare lines of the same processor and torch version; a fall by more than the spread is a regression.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import process_time

import torch
import torch.nn.functional as F  # noqa: N812 (the usual name)
from torch import Tensor, nn

from benchmarks.step_profile import Updates
from benchmarks.workload import prepared
from evenglot.batches.load import Batch
from evenglot.model.shape import Shape
from evenglot.model.transformer import sinusoids
from evenglot.processor import features, vendor
from evenglot.symbols import EOS, PAD
from evenglot.training.parallel import has_bfloat16

HISTORY = Path(__file__).parent / "results" / "guard.jsonl"
ROUNDS, UPDATES = 7, 8
CASES = [("tiny", "float32"), ("mini", "float32"), ("tiny", "bfloat16"), ("mini", "bfloat16")]


class Bare(nn.Module):
    """The same shape, from PyTorch's own parts."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.source = nn.Embedding(shape.source_pieces, shape.dim, padding_idx=PAD)
        self.target = nn.Embedding(shape.target_pieces, shape.dim, padding_idx=PAD)
        self.layers = nn.Transformer(
            shape.dim,
            shape.heads,
            shape.encoder_layers,
            shape.decoder_layers,
            shape.ffn,
            shape.dropout,
            batch_first=True,
            norm_first=True,
        )
        self.register_buffer("positions", sinusoids(shape.max_positions, shape.dim))

    def forward(self, batch: Batch) -> Tensor:
        """The label-smoothed loss per token."""
        seen = F.pad(batch.target[:, :-1], (1, 0), value=EOS)
        causal = nn.Transformer.generate_square_subsequent_mask(seen.size(1))
        padding = batch.source == PAD
        hidden = self.layers(
            self._embedded(self.source, batch.source),
            self._embedded(self.target, seen),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        logits = F.linear(hidden, self.target.weight).flatten(0, 1)
        return F.cross_entropy(logits, batch.target.flatten(), ignore_index=PAD, label_smoothing=0.1)

    def _embedded(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        scaled: Tensor = embedding(ids) * math.sqrt(embedding.embedding_dim) + self.positions[: ids.size(1)]
        return scaled


class BareSteps:
    """Updates of the bare model, always in float32."""

    def __init__(self, shape: Shape) -> None:
        self.model = Bare(shape).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)

    def timed(self, batches: list[Batch]) -> float:
        started = process_time()
        for batch in batches:
            self.optimizer.zero_grad()
            self.model(batch).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return process_time() - started


def ratios(size: str, precision: str) -> list[float]:
    """Bare CPU time over ours, once per round."""
    config, store = prepared("tiny_webui", 1024, size=size)
    ours = Updates(config, store, precision)
    bare = BareSteps(ours.shape)
    bare.timed(ours.run(UPDATES))
    found = []
    for _ in range(ROUNDS):
        seconds, batches = ours.timed(UPDATES)
        found.append(bare.timed(batches) / seconds)
    return found


def main() -> None:
    torch.set_num_threads(1)
    about = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "torch": torch.__version__,
        "processor": f"{vendor()} {sha256(' '.join(sorted(features())).encode()).hexdigest()[:8]}",
    }
    print("CPU time of a bare PyTorch step in float32 over ours (median, lowest, highest):", flush=True)
    found = {}
    for size, precision in CASES:
        if precision == "float32" or has_bfloat16():
            values = ratios(size, precision)
            row = [statistics.median(values), min(values), max(values)]
            found[f"{size} {precision}"] = [round(value, 3) for value in row]
            print(f"  {size:5} {precision:9} {row[0]:.2f}  [{row[1]:.2f}, {row[2]:.2f}]", flush=True)
    before = [json.loads(line) for line in HISTORY.read_text().splitlines()] if HISTORY.exists() else []
    for line in before[-5:]:
        print(f"  {line['date']} {line['commit']} {line['processor']}: {line['ratios']}")
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**about, "ratios": found}) + "\n")


if __name__ == "__main__":
    main()
