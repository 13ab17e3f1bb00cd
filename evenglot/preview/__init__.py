"""Look before you train: check the data, simulate a strategy."""
