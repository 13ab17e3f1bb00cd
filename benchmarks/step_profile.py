"""Where the time of a training step goes: `python -m benchmarks.step_profile` prints it.

Runs the updates of `evenglot train` on a prepared corpus in one thread and compares the CPU time with that of a large
matrix product:

    share of peak = FLOPs of the matrix products of an update / CPU seconds of an update / FLOPs per second of the peak

There are two peaks: that of PyTorch's own float32 product, and that of the library and precision that training uses
(`model/products.py`), which differ on AMD processors with AVX-512 and in bfloat16.

The FLOPs are those of the model (forward and backward, multiplications and additions), computed from its shape and the
lengths of the sentences, so they do not depend on how the code computes it. "Useful" leaves out padding; "executed"
includes it in all layers but the output layer, which never sees padding. Updates and peak are measured in turn. With
--operators N, the N most expensive operators of torch.profiler follow, for some more updates.

    python -m benchmarks.step_profile --size mini --corpus PATH --precision bfloat16 --operators 30
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.workload import CACHE, TOKENS, prepared
from evenglot.balance import Balancer
from evenglot.batches.draw import draw
from evenglot.batches.load import Batch, Loader, load
from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.model.products import rows_times
from evenglot.model.shape import Shape
from evenglot.symbols import PAD
from evenglot.training.model import create_model
from evenglot.training.optimizer import create_optimizer
from evenglot.training.parallel import PRECISIONS, Processes
from evenglot.training.step import Step

WARMUP, PEAK_SIZE = 3, 2048
Product = Callable[[Tensor, Tensor], Tensor]


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    for corpus in options.corpus:
        for size in options.size:
            config, store = prepared(corpus, options.tokens, cache=options.cache, size=size)
            updates = Updates(config, store, options.precision)
            print(report(updates, Path(corpus).name, size, options), flush=True)
            if options.operators:
                print(updates.operators(options.updates, options.operators), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU time of a training step and its share of the matmul peak")
    parser.add_argument("--corpus", nargs="+", default=["tiny_webui"], help="folders, or tiny_webui (embedded)")
    parser.add_argument("--size", nargs="+", default=["tiny", "mini"], help="model sizes")
    parser.add_argument("--precision", default="float32", choices=sorted(PRECISIONS))
    parser.add_argument("--tokens", type=int, default=TOKENS, help="token budget of an update")
    parser.add_argument("--updates", type=int, default=10, help="updates of a repetition")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--operators", type=int, default=0, help="rows of the table of operators")
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------------------ updates


class Updates:
    """The updates of a run, one after the other, with what each has cost."""

    def __init__(self, config: Config, store: Store, precision: str) -> None:
        processes = Processes(precision=precision)  # type: ignore[arg-type]  # one of PRECISIONS
        model = create_model(config, store)
        self.shape: Shape = model.shape
        self.step = Step.of(config, store, model, create_optimizer(model, config.train), processes)
        self.groups = config.data.groups
        self.balancer: Balancer = config.balancer(self.groups.sum(store.sizes), self.groups.sum(store.target_tokens))
        interval = draw(store.sizes, store.sizes, seed=1, interval=0)
        corpora = {name: store.corpus(name, "train") for name in self.step.names}
        self.loader: Loader = load(
            corpora,
            interval,
            budget=config.batches.tokens_per_batch,
            pad=PAD,
            micro_batches=config.batches.micro_batches,
        )
        self.done = 0
        self.run(WARMUP)

    def run(self, updates: int) -> list[Batch]:
        """Do updates; returns their batches."""
        seen = []
        for _ in range(updates):
            k = self.done % len(self.loader)
            batches = self.loader.update(k)
            self.step.train(self.done + 1, batches, self.loader.plan.target_tokens_in(k), self.balancer, self.groups)
            self.done += 1
            seen += batches
        return seen

    def timed(self, updates: int) -> tuple[float, list[Batch]]:
        started = process_time()
        batches = self.run(updates)
        return process_time() - started, batches

    def operators(self, updates: int, rows: int) -> str:
        with profile(activities=[ProfilerActivity.CPU]) as record:
            self.run(updates)
        return str(record.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows))


# -------------------------------------------------------------------------------------------------------------- FLOPs


@dataclass(frozen=True)
class Lengths:
    """What the number of operations depends on, summed over sentences: S source and T target tokens each."""

    source: float
    target: float
    source_pairs: float  # S * S
    target_pairs: float  # T * T
    cross_pairs: float  # S * T
    predicted: float  # target tokens without padding

    @staticmethod
    def of(batches: Sequence[Batch], padded: bool) -> Lengths:
        source = torch.cat([_lengths(batch.source_lengths, batch.source, padded) for batch in batches])
        target = torch.cat([_lengths(batch.target_lengths, batch.target, padded) for batch in batches])
        predicted = sum(float(batch.target_lengths.sum()) for batch in batches)
        sums = (source.sum(), target.sum(), (source**2).sum(), (target**2).sum(), (source * target).sum())
        return Lengths(*map(float, sums), predicted)


def _lengths(lengths: Tensor, ids: Tensor, padded: bool) -> Tensor:
    return torch.full_like(lengths, ids.size(1)).double() if padded else lengths.double()


def training_flops(shape: Shape, n: Lengths) -> float:
    """FLOPs of the matrix products of a forward and a backward pass; the backward pass has twice those of the forward.

    Attention counts all pairs of positions, although a causal mask needs half of them.
    """
    square, feed = shape.dim**2, 2 * shape.dim * shape.ffn
    encoder = n.source * (4 * square + feed) + 2 * shape.dim * n.source_pairs
    decoder = n.target * (6 * square + feed) + n.source * 2 * square
    attention = 2 * shape.dim * (n.target_pairs + n.cross_pairs)
    products = shape.encoder_layers * encoder + shape.decoder_layers * (decoder + attention)
    products += n.predicted * shape.dim * shape.target_pieces
    return 3 * 2 * products


def peak(dtype: torch.dtype, product: Product = torch.mm, size: int = PEAK_SIZE, repeats: int = 3) -> float:
    """FLOPs per CPU second of a product of square matrices in one thread; the best of a few."""
    left, right = (torch.randn(size, size).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(repeats):
        started = process_time()
        product(left, right)
        seconds.append(process_time() - started)
    return 2 * size**3 / min(seconds)


# ------------------------------------------------------------------------------------------------------------- report


def report(updates: Updates, corpus: str, size: str, options: argparse.Namespace) -> str:
    rows = []
    for _ in range(options.repeats):
        seconds, batches = updates.timed(options.updates)
        useful, executed = (training_flops(updates.shape, Lengths.of(batches, padded)) for padded in (False, True))
        tokens = sum(int(batch.target_lengths.sum()) for batch in batches)
        peaks = peak(torch.float32), peak(PRECISIONS[options.precision], rows_times)
        rows.append((seconds, tokens, useful / seconds, executed / seconds, *peaks))
    lines = [
        f"{corpus}, {size}, {options.precision}, {options.tokens} tokens an update: medians of {options.repeats} x "
        f"{options.updates} updates (min to max), one thread, torch {torch.__version__}",
        f"  CPU ms an update          {spread([1e3 * row[0] / options.updates for row in rows], '.0f')}",
        f"  target tokens / CPU s     {spread([row[1] / row[0] for row in rows], ',.0f')}",
        f"  GFLOP/s useful            {spread([row[2] / 1e9 for row in rows], '.1f')}",
        f"  GFLOP/s float32 peak      {spread([row[4] / 1e9 for row in rows], '.1f')}",
        f"  share of it, useful       {spread([row[2] / row[4] for row in rows], '.0%')}",
        f"  share of it, executed     {spread([row[3] / row[4] for row in rows], '.0%')}",
        f"  GFLOP/s peak as trained   {spread([row[5] / 1e9 for row in rows], '.1f')}",
        f"  share of it, useful       {spread([row[2] / row[5] for row in rows], '.0%')}",
    ]
    return "\n".join(lines)


def spread(values: Sequence[float], form: str) -> str:
    """Median (min to max)."""
    median, least, most = (format(value, form) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({least} to {most})"


if __name__ == "__main__":
    main()
