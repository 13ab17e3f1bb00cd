"""Balancing outside our own training loop: PyTorch, transformers, Lightning, and mixtures for other systems."""
