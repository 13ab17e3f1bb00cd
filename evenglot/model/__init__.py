"""The translation model: Transformer, training loss, and search."""
