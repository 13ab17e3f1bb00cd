"""Loss per character of the model on the references; unlike the loss per token, comparable across vocabularies."""

from __future__ import annotations

from evenglot.scoring.metrics.metric import Metric, Numbers


def loss(counts: Numbers) -> Numbers:
    """Nats per character; counts: -log p and number of characters of the reference (`scoring/reference_loss.py`)."""
    return counts[..., 0] / counts[..., 1]


METRIC = Metric(
    "loss",
    "loss per character",
    higher_is_better=False,
    digits=3,
    score=loss,
    alias="loss_per_character",
    short="loss/char",
    columns=2,
)
