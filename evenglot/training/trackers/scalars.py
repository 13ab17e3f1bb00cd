"""The numbers of an event that trackers show, by tag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from evenglot.runs.events import BalanceEvent, Event, IntervalEvent, ProbeEvent, StepEvent, ValidationEvent

# Scalars of an event: tag prefix -> fields of the event.
NUMBERS: dict[type[Event], dict[str, Sequence[str]]] = {
    StepEvent: {"train": ("loss", "learning_rate", "tokens_per_second", "gradient_norm", "tokens")},
    IntervalEvent: {"data": ("padding",)},
    ValidationEvent: {"valid": ("pooled", "macro", "worst", "score", "seconds")},
    ProbeEvent: {"probe": ("seconds",)},
}
# Scalars per direction: field of the event -> tag prefix.
BY_DIRECTION: dict[type[Event], dict[str, str]] = {
    StepEvent: {"losses": "train_loss", "target": "target"},
    IntervalEvent: {"mixture": "mixture"},
    BalanceEvent: {"mixture": "mixture", "losses": "balance_loss", "realised": "realised"},
    ValidationEvent: {"loss": "valid_loss", "loss_per_character": "valid_loss_per_character", "chrf": "valid_chrf"},
    ProbeEvent: {"cosines": "probe_cosine", "target": "target"},
}


def scalars(event: Event) -> dict[str, float]:
    """The scalars of an event by tag, such as `train/loss` or `mixture/aze-en`."""
    return {tag: value for tag, value in _tagged(event) if isinstance(value, int | float)}


def _tagged(event: Event) -> Iterator[tuple[str, Any]]:
    for group, names in NUMBERS.get(type(event), {}).items():
        yield from ((f"{group}/{name}", getattr(event, name)) for name in names)
    for name, group in BY_DIRECTION.get(type(event), {}).items():
        yield from ((f"{group}/{direction}", value) for direction, value in (getattr(event, name) or {}).items())
