"""Warnings about a configuration that may be a mistake, before a run starts: (kind, message) of each."""

from __future__ import annotations

from evenglot.balance import Balancer
from evenglot.batches.load import Loader
from evenglot.config import Config
from evenglot.config.doubts import Doubts, Length, doubts_about
from evenglot.corpus.store import Store


def warnings_about(
    config: Config, store: Store, processes: int, balancer: Balancer, loader: Loader, updates: int
) -> Doubts:
    """All warnings for a run of `updates` updates; `loader` has its first interval."""
    length = Length(updates, len(loader), sum(loader.interval.counts.values()))
    has_validation = any("valid" in store.splits(name) for name in store.directions)
    yield from doubts_about(config, balancer, length, has_validation)
    batches = config.batches.micro_batches
    if processes > batches:
        yield (
            "processes",
            f"{processes} processes share {batches} batches per update, so some are idle; raise "
            "batches.tokens_per_update or lower batches.tokens_per_batch",
        )
