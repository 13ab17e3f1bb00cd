"""Warnings about a configuration that may be a mistake, before a run starts: (kind, message) of each."""

from __future__ import annotations

from evenglot.balance import Balancer
from evenglot.batches.load import Loader
from evenglot.config import Config
from evenglot.config.doubts import Doubts, Length, doubts_about, estimated_length
from evenglot.corpus.store import Store
from evenglot.wording import counted

LESS_OFTEN = {
    "max_ratio": "balance.max_ratio",
    "rho": "a lower rho",
    "tau": "a lower tau",
    "alpha": "balance.alpha",  # of `mix` a lower one, of CVaR a higher one
    "passes": "fewer balance.passes",
}


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
            f"{processes} processes share {counted(batches, 'batch', 'batches')} per update, so some are idle; raise "
            "batches.tokens_per_update or lower batches.tokens_per_batch",
        )


def warnings_before_reference(config: Config, store: Store) -> Doubts:
    """What is known before a reference run is paid for; the length of an interval is estimated."""
    pairs, targets = (config.data.groups.sum(each) for each in (store.sizes, store.target_tokens))
    balancer = config.balancer(pairs, targets, config.balance.without_baseline_file())
    has_validation = any("valid" in store.splits(name) for name in store.directions)
    return doubts_about(config, balancer, estimated_length(config, store.sizes, store.tokens), has_validation)


def against_overfitting(config: Config) -> str:
    """What to do if a direction is memorised, by options that the strategy has."""
    ways = [way for key, way in LESS_OFTEN.items() if key in config.balance.options]
    sampling = f"sample it less often ({', '.join(ways)})" if ways else "train for fewer updates"
    return f"{sampling} or use more dropout"
