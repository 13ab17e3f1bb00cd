"""Strategies side by side, with significance."""
