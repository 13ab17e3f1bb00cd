"""Settings that should be equal in compared runs, so that a difference in scores is due to the strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Topic = Literal["schedule", "optimizer", "batches", "model", "data"]
Settings = Mapping[str, Mapping[str, Any]]  # the configuration of a run, by section and key

ALL = ("*",)  # keys of a section
TOPICS: Mapping[Topic, Mapping[str, Sequence[str]]] = {
    "schedule": {
        "train": ("learning_rate", "schedule", "warmup", "warmup_start", "decay", "decay_every", "cooldown"),
    },
    "optimizer": {"train": ("betas", "epsilon", "weight_decay", "clip", "label_smoothing", "precision")},
    "batches": {"batches": ("tokens_per_batch", "tokens_per_update")},
    "model": {"model": ALL},
    "data": {"clean": ALL, "vocabulary": ALL, "store": ("valid_cap", "seed")},
}
PATHS = {"model.init"}  # the same checkpoint may be in several places
ONLY_FOR_SCHEDULE = {"train.decay": "step", "train.decay_every": "step", "train.cooldown": "constant"}


def differing(runs: Sequence[Settings], others: Sequence[Settings], topic: Topic) -> dict[str, tuple[str, str]]:
    """Keys of a topic, 'train.schedule', that differ between two groups of runs, with the values of both in words.

    Keys that a run does not have (its version did not know them, or they have no effect) are not compared.
    """
    left, right = ([_values(settings, topic) for settings in group] for group in (runs, others))
    common = set.intersection(*(set(values) for values in [*left, *right]))
    shown = {key: (_listed(left, key), _listed(right, key)) for key in sorted(common)}
    return {key: both for key, both in shown.items() if both[0] != both[1]}


def _values(settings: Settings, topic: Topic) -> dict[str, Any]:
    """The settings of a topic that have an effect."""
    found = {}
    schedule = (settings.get("train") or {}).get("schedule")
    for section, keys in TOPICS[topic].items():
        content = settings.get(section) or {}
        for name in content if keys is ALL else keys:
            key = f"{section}.{name}"
            has_effect = ONLY_FOR_SCHEDULE.get(key, schedule) == schedule and key not in PATHS
            if name in content and has_effect:
                found[key] = content[name]
    return found


def _listed(values: Sequence[Mapping[str, Any]], key: str) -> str:
    return " and ".join(sorted({_in_words(each[key]) for each in values}))


def _in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_in_words, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)
