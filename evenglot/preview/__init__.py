"""Checks before training: check the data, simulate a strategy."""
