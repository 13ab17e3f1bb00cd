"""Comparison of strategies, with significance tests."""
