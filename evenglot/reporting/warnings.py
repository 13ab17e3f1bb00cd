"""Warnings in a report that limit how far its numbers can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from evenglot.comparison.warnings import USABLE_BLEU
from evenglot.runs.events import Event
from evenglot.runs.history import History, Series
from evenglot.runs.scores import Scores, are_outdated
from evenglot.wording import counted, some

Kind = Literal[
    "unfinished",
    "barely translates",
    "over-fitting",
    "starved",
    "sampled least",
    "unread",
    "off-target",
    "passes",
    "scores",
    "translations",
    "note",
]

STARVED = 5  # warn if a direction's share is this many times below its share of the data
OFF_TARGET = 0.1
LOGGED: dict[str, Kind] = {"overfitting": "over-fitting", "passes": "passes"}  # kinds in the log; others are notes
MANY_PASSES = 3  # median number of passes from which a corpus without one complete pass is reported


@dataclass(frozen=True)
class Warning:
    """A warning; `step` is the number of updates it refers to, if known."""

    kind: Kind
    text: str
    step: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The form embedded in the page."""
        return {"kind": self.kind, "text": self.text, "step": self.step}


def warnings(story: History, last_step: int, scores: Scores | None, live: bool = False) -> list[Warning]:
    """All warnings: first those about the whole run, then those about single directions."""
    return [
        *_unfinished(story, last_step, live),
        *_without_scores(story, scores),
        *_barely_translates(scores),
        *(Warning(LOGGED.get(event.kind, "note"), event.message, event.step) for event in story.warnings),
        *_starved(story, last_step),
        *_worst_sampled_least(story, last_step),
        *_unread(story),
        *_off_target(scores),
    ]


def _unfinished(story: History, last_step: int, live: bool) -> list[Warning]:
    if story.done is not None and story.done.stopped:
        text = f"The run was stopped after {counted(last_step, 'update')}; `evenglot train` with --resume continues it."
        return [Warning("unfinished", text)]
    if story.done is not None or live:
        return []
    text = (
        f"The event log ends after {counted(last_step, 'update')} without a final event: the run is still in progress "
        "or was interrupted (then `evenglot train` with --resume continues it)."
    )
    return [Warning("unfinished", text)]


def _without_scores(story: History, scores: Scores | None) -> list[Warning]:
    if scores is not None or story.done is None:
        return []
    return [Warning("scores", "No scores yet: run `evenglot score` on this run, then `evenglot report` again.")]


def outdated_scores(scores: Scores | None, events: Sequence[Event]) -> list[Warning]:
    """Scores of an earlier checkpoint than the best one."""
    if scores is None or not are_outdated(scores.made, events):
        return []
    text = (
        f"The scores are of the checkpoint after {scores.made.get('step'):,} updates, but there is a newer best "
        "checkpoint; run `evenglot score` again."
    )
    return [Warning("scores", text)]


def without_scores(file: Path, split: str) -> list[Warning]:
    """Translations whose scores were deleted, or are not written yet."""
    if file.exists():
        return []
    text = f"hypotheses/{split} has translations, but {file.name} is missing; run `evenglot score` again."
    return [Warning("translations", text)]


def left_out(names: Sequence[str], split: str) -> list[Warning]:
    """Directions whose stored translations are not shown."""
    if not names:
        return []
    text = (
        f"No sample translations of {some(names)}: those in hypotheses/{split} are missing, have changed since they "
        "were scored, or do not fit the store; run `evenglot score` again."
    )
    return [Warning("translations", text)]


def _barely_translates(scores: Scores | None) -> list[Warning]:
    mean = None if scores is None else scores.macro.get("bleu")
    if mean is None or mean >= USABLE_BLEU:
        return []
    text = f"Mean BLEU {mean:.1f}, below {USABLE_BLEU}: this model barely translates; train longer."
    return [Warning("barely translates", text)]


def _starved(story: History, last_step: int) -> list[Warning]:
    """Directions with less than a fifth of their data share in the last third of the run."""
    late = mean_shares(story.mixture, since=2 * last_step // 3, until=last_step)
    got = "weight" if story.reweights else "share"
    found = []
    for name, p in story.p.items():
        share = late.get(name)
        if share is not None and share < p / STARVED:
            times = f"{p / share:,.0f} times" if share > p / 1000 else "more than 1,000 times"
            text = (
                f"{name} was starved: in the last third of the run its {got} was {100 * share:.2g} %, {times} below "
                f"its {100 * p:.2g} % of the data (the threshold is {STARVED} times)."
            )
            found.append(Warning("starved", text))
    return found


def _worst_sampled_least(story: History, last_step: int) -> list[Warning]:
    """The direction with the highest validation loss had the smallest share in the last third of the run."""
    per_character = _last(story.valid_losses_per_character)  # can be compared between target languages
    losses = per_character or _last(story.valid_losses)
    late = mean_shares(story.mixture, since=2 * last_step // 3, until=last_step)
    if story.done is None or len(losses) < 2 or not losses.keys() <= late.keys():
        return []
    worst = max(losses, key=lambda name: losses[name])
    others = [late[name] for name in losses if name != worst]
    if late[worst] >= min(others):
        return []
    got, unit = "weighted" if story.reweights else "sampled", "character" if per_character else "token"
    text = (
        f"{worst} has the highest validation loss ({losses[worst]:.3f} per {unit}), but was {got} least in the last "
        f"third of the run: {100 * late[worst]:.2g} %, with {100 * story.p[worst]:.2g} % of the data."
    )
    return [Warning("sampled least", text)]


def _last(losses: Series) -> dict[str, float]:
    return {name: values[-1] for name, values in losses.values.items() if values and values[-1] is not None}


def _unread(story: History) -> list[Warning]:
    """Corpora without one complete pass although the others had several."""
    usual = median(story.passes.values()) if story.passes else 0.0
    if story.done is None or usual < MANY_PASSES:
        return []
    return [
        Warning(
            "unread",
            f"{name}: about {100 * (1 - passes):.0f} % of its {story.pairs[name]:,} pairs were never sampled, while "
            f"the median corpus had {usual:.1f} passes.",
        )
        for name, passes in story.passes.items()
        if passes < 0.95
    ]


def _off_target(scores: Scores | None) -> list[Warning]:
    directions = {} if scores is None else scores.directions
    return [
        Warning(
            "off-target",
            f"{name}: {100 * rate:.0f} % of the translations were identified as another language "
            f"(references: {100 * usual:.0f} %).",
        )
        for name, row in directions.items()
        if (rate := row.get("off_target") or 0.0) - (usual := row.get("off_target_references") or 0.0) > OFF_TARGET
    ]


def mean_shares(mixture: Series, *, since: int, until: int) -> dict[str, float]:
    """Mean q of each direction over these updates; a mixture is in effect until the next one."""
    ends = [*mixture.steps[1:], max(until, *mixture.steps)] if mixture.steps else []
    lengths = [max(0, min(end, until) - max(start, since)) for start, end in zip(mixture.steps, ends, strict=True)]
    if mixture.steps and not any(lengths):  # before the first update
        lengths[-1] = 1
    found = {}
    for name, shares in mixture.values.items():
        known = [(length, share) for length, share in zip(lengths, shares, strict=True) if share is not None]
        total = sum(length for length, _ in known)
        if total:
            found[name] = sum(length * share for length, share in known) / total
    return found
