"""The section `batches`: how sentence pairs are sampled and batched."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from evenglot.config.intervals import SHORT_INTERVAL
from evenglot.config.section import Count, Finite, Section, key

INTERVAL_KEYS = ("interval_pairs", "interval_tokens", "interval_updates")


class BatchSettings(Section):
    """How sentence pairs are sampled and batched. An interval is the time between two updates of the mixture."""

    tokens_per_batch: Count = key(
        4096, "Batch size including padding (number of sentences times longest sentence); limited by memory."
    )
    tokens_per_update: Count = key(
        65_536, "Tokens per optimizer update, over all batches and devices; 65,536 in the paper."
    )
    interval_pairs: Count | None = key(
        None, "Sentence pairs per interval: how often the mixture can change. null: one pass over the data."
    )
    interval_tokens: Count | None = key(None, "Approximate target tokens per interval, instead of interval_pairs.")
    interval_updates: Count | None = key(
        None,
        f"Updates per interval, instead of interval_pairs. null: {SHORT_INTERVAL} (at most one pass over the data) for "
        "strategies that need short intervals (docs/methods.md), unless train.intervals is set.",
    )
    oversample: Literal["cycle", "released"] | None = key(
        None,
        "cycle: use every pair of a corpus before repeating any; released: like the paper's released code. null: "
        "determined by balance.preset.",
    )
    max_scale_up: Annotated[Finite, Field(gt=0)] | None = key(
        None,
        "released: maximum pairs per interval, as a multiple of the data. null: determined by balance.preset.",
    )

    @property
    def interval_keys(self) -> list[str]:
        """The keys that set the length of an interval; at most one in a valid configuration."""
        return [name for name in INTERVAL_KEYS if getattr(self, name) is not None]

    @property
    def micro_batches(self) -> int:
        """Number of batches whose gradients are accumulated for one update."""
        return max(1, self.tokens_per_update // self.tokens_per_batch)
