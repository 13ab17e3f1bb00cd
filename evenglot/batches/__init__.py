"""From a mixture to batches: pure functions of (sizes, lengths, q, seed, interval, position)."""
