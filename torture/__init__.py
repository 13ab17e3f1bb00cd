"""Attacks on evenglot, seeded and counted: `make torture`. The figures are in docs/reliability.md."""
