"""Overhead of chi-IBR over plain training: `python -m benchmarks.balance_overhead` writes results/balance_overhead.md.

Two identical models take turns with the same updates. One is trained by a minimal loop without language statistics, the
other like `evenglot train`, with losses per language, the balancer's running losses, and a best response after each
interval. Both draw new batches after each interval, so the cost of drawing is not part of the overhead.
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from evenglot.balance import Balancer, create
from evenglot.batches.draw import draw
from evenglot.batches.load import Batch, load
from evenglot.config import Config, load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.store import Store
from evenglot.model.loss import batch_loss
from evenglot.paper.recipes import recipe_config
from evenglot.progress import Bars
from evenglot.symbols import PAD
from evenglot.training.model import create_model
from evenglot.training.optimizer import create_optimizer
from evenglot.training.parallel import Processes
from evenglot.training.step import Step

RESULT = Path(__file__).parent / "results" / "balance_overhead.md"
SIZES = ("tiny",)  # the worst case: larger models have longer updates and the same bookkeeping
INTERVALS, BUDGET = 4, 2048
STRATEGY = ("balance={strategy: chi-ibr, max_upsample: 2}", "batches.interval_pairs=2886")


@dataclass
class Times:
    """Seconds of one interval."""

    plain: float
    balanced: float
    observing: float
    answering: float
    updates: int

    @property
    def overhead(self) -> float:
        return self.balanced / self.plain - 1


def main() -> None:
    torch.set_num_threads(1)
    lines = [
        "# What chi-IBR costs over plain training",
        "",
        f"Made by `python -m benchmarks.balance_overhead` on {os.cpu_count()} cores ({platform.machine()}), one "
        f"thread, Python {platform.python_version()}, torch {torch.__version__}.",
        f"Embedded corpus, 5 directions, {BUDGET:,} tokens an update; the two take turns at every update, {INTERVALS} "
        "intervals; medians.",
        "Observing: summing losses by direction and handing them to the balancer, at every update; answering: the best",
        "response, once an interval. These are timed apart; the overhead of an interval has the machine's noise.",
        "",
        "| model | updates | plain, ms | chi-IBR, ms | overhead (of each interval) | observing, ms | answering, ms |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            settings = [f"store.folder={folder}", f"model.size={size}", *STRATEGY]
            config = load_config(recipe_config("tiny-webui"), settings)
            lines.append(row(size, measure(config, prepare(config, Bars()))))
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def row(size: str, times: list[Times]) -> str:
    updates = sum(each.updates for each in times)
    by_update = [
        statistics.median(1e3 * seconds / each.updates for each in times for seconds in [getattr(each, name)])
        for name in ("plain", "balanced", "observing")
    ]
    overheads = sorted(each.overhead for each in times)
    answering = statistics.median(1e3 * each.answering for each in times)
    listed = ", ".join(f"{100 * overhead:+.2f}" for overhead in overheads)
    return (
        f"| {size} | {updates} | {by_update[0]:.1f} | {by_update[1]:.1f} "
        f"| {100 * statistics.median(overheads):+.2f} % ({listed}) | {by_update[2]:.3f} | {answering:.3f} |"
    )


def measure(config: Config, store: Store) -> list[Times]:
    names = sorted(store.directions)
    balancer = create("chi-ibr", store.sizes, rho=0.1)
    corpora = {name: store.corpus(name, "train") for name in names}
    models = [create_model(config, store) for _ in range(2)]
    optimizers = [create_optimizer(model, config.train) for model in models]
    step = Step.of(config, store, models[1], optimizers[1], Processes())
    number, times = 0, []
    for interval in range(INTERVALS + 1):  # the first warms up
        loader = load(
            corpora,
            draw(store.sizes, balancer.mixture.sample, seed=1, interval=interval, drawn_before=dict.fromkeys(names, 0)),
            budget=BUDGET,
            pad=PAD,
            micro_batches=1,
        )
        here = Times(0, 0, 0, 0, len(loader))
        for k, batches in loader.iterate():
            number += 1
            tokens = loader.plan.target_tokens_in(k)
            for turn in ("plain", "balanced") if number % 2 else ("balanced", "plain"):
                started = perf_counter()
                if turn == "plain":
                    plain_update(models[0], optimizers[0], batches, tokens, config.train.label_smoothing)
                    here.plain += perf_counter() - started
                else:
                    here.observing += balanced_update(step, number, batches, tokens, balancer)
                    here.balanced += perf_counter() - started
        started = perf_counter()
        balancer.update()
        here.answering = perf_counter() - started
        here.balanced += here.answering
        times.append(here)
    return times[1:]


def plain_update(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch], tokens: int, smoothing: float
) -> float:
    """One update of a minimal training loop."""
    model.train()
    optimizer.zero_grad()
    total = 0.0
    for batch in batches:
        weights = torch.full((len(batch.direction),), 1 / tokens)
        loss = batch_loss(model, batch, weights, smoothing)
        loss.objective.backward()
        total += float(loss.objective.detach())
    torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    optimizer.step()
    return total


def balanced_update(step: Step, number: int, batches: list[Batch], tokens: int, balancer: Balancer) -> float:
    """One update of our training loop; returns the seconds for counting and observing, which is repeated to time it."""
    seen, _ = step.train(number, batches, tokens, balancer, {name: name for name in step.names})
    started = perf_counter()
    step.all_processes(step._observed(batches, [torch.zeros(len(batch.direction)) for batch in batches]))
    sums, counts = (dict(zip(step.names, each.tolist(), strict=True)) for each in (seen.losses, seen.tokens))
    balancer.observe(sums, counts)
    return perf_counter() - started


if __name__ == "__main__":
    main()
