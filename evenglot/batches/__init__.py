"""Sampling, packing and loading of batches: pure functions of (sizes, lengths, q, seed, interval, position)."""
