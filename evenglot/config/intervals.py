"""Intervals of strategies that sample from a mixture which changes at every update: one mixture for each interval."""

from __future__ import annotations

from evenglot.balance.description import LONG_LAG

# Updates per interval of these strategies unless configured. Their papers sample from the latest mixture in every
# update. In 50 updates it hardly moves: with the default step, Group DRO changes the ratio of two shares by less than a
# factor of 1.7 if their losses differ by 1 nat, and MultiDDS probes every 1,000 updates. Shorter intervals pad more:
# batches are cut from the pairs of one interval, sorted by length (docs/data.md).
SHORT_INTERVAL = 50


def lag_warning(lag: int) -> str | None:
    """A warning if the last update of an interval uses a mixture that is `lag` updates old, and that is long."""
    if lag < LONG_LAG:
        return None
    return (
        f"the mixture may change with every update, but is sampled once per interval and so applied up to {lag:,} "
        f"updates late; set the length of an interval with batches.interval_updates: {SHORT_INTERVAL}"
    )
