"""evenglot: one translation model for many languages, good in every one of them."""

__version__ = "0.1.0.dev0"
