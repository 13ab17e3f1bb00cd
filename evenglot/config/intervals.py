"""How late a mixture is applied that changes at every update and is sampled once per interval."""

from __future__ import annotations

LONG_LAG = 1000  # updates; by then q has often moved far from what is sampled, and MultiDDS has probed again


def lag_warning(lag: int) -> str | None:
    """A warning if the last update of an interval uses a mixture that is `lag` updates old, and that is long."""
    if lag < LONG_LAG:
        return None
    return (
        f"the mixture may change with every update, but is sampled once per interval and so applied up to {lag:,} "
        "updates late; set the length of an interval with batches.interval_updates: 50"
    )
