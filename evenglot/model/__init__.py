"""Sentences -> loss of each language, and back to sentences: Transformer, loss, search."""
