"""The training loop and what it needs."""
