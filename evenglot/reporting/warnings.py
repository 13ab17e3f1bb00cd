"""What a reader of a report should know before believing its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from evenglot.runs.history import History, Series

Kind = Literal["unfinished", "over-fitting", "starved", "unread", "off-target", "passes", "scores", "note"]

STARVED = 5  # so many times less than its size asks for
OFF_TARGET = 0.1
LOGGED: dict[str, Kind] = {"overfitting": "over-fitting", "passes": "passes"}  # kinds in the log; others are notes
MANY_PASSES = 3  # if the others were read so often, a corpus that was not read once was neglected


@dataclass(frozen=True)
class Warning:
    """One line for a person; `step`: after so many updates, where that is known."""

    kind: Kind
    text: str
    step: int | None = None

    def as_json(self) -> dict[str, Any]:
        """As the page has it."""
        return {"kind": self.kind, "text": self.text, "step": self.step}


def warnings(story: History, last_step: int, scores: Mapping[str, Any] | None, live: bool = False) -> list[Warning]:
    """All there is to warn of: first what puts everything in doubt, then what concerns single directions."""
    return [
        *_unfinished(story, last_step, live),
        *_without_scores(story, scores),
        *(Warning(LOGGED.get(event.kind, "note"), event.message, event.step) for event in story.warnings),
        *_starved(story, last_step),
        *_unread(story),
        *_off_target(scores),
    ]


def _unfinished(story: History, last_step: int, live: bool) -> list[Warning]:
    if story.done is not None and story.done.stopped:
        text = f"The run was stopped after {last_step:,} updates; `evenglot train` with --resume goes on."
        return [Warning("unfinished", text)]
    if story.done is not None or live:
        return []
    text = (
        f"The log ends after {last_step:,} updates without saying that the run is over: it is still going on, or was "
        "killed (then `evenglot train` with --resume goes on)."
    )
    return [Warning("unfinished", text)]


def _without_scores(story: History, scores: Mapping[str, Any] | None) -> list[Warning]:
    if scores is not None or story.done is None:
        return []
    return [Warning("scores", "There are no scores yet: run `evenglot score` for this run, then report again.")]


def _starved(story: History, last_step: int) -> list[Warning]:
    """Over the last third of the run a direction got less than a fifth of what its size asks for."""
    late = mean_shares(story.mixture, since=2 * last_step // 3, until=last_step)
    got = "weight" if story.reweights else "share"
    found = []
    for name, p in story.p.items():
        share = late.get(name)
        if share is not None and share < p / STARVED:
            times = f"{p / share:,.0f} times less" if share > p / 1000 else "next to nothing, much less"
            text = (
                f"{name} was starved: in the last third of the run its {got} was {100 * share:.2g} %, {times} than its "
                f"{100 * p:.2g} % of the data (the line is drawn at {STARVED} times less)."
            )
            found.append(Warning("starved", text))
    return found


def _unread(story: History) -> list[Warning]:
    """A corpus that was not read once, though the others were read several times."""
    usual = median(story.passes.values()) if story.passes else 0.0
    if story.done is None or usual < MANY_PASSES:
        return []
    return [
        Warning(
            "unread",
            f"{name}: about {100 * (1 - passes):.0f} % of its {story.pairs[name]:,} pairs were never shown, while half "
            f"of the corpora were read {usual:.1f} times or more.",
        )
        for name, passes in story.passes.items()
        if passes < 0.95
    ]


def _off_target(scores: Mapping[str, Any] | None) -> list[Warning]:
    directions = {} if scores is None else scores["directions"]
    return [
        Warning(
            "off-target",
            f"{name}: {100 * rate:.0f} % of the translations seem to be in another language; of the references, "
            f"{100 * usual:.0f} %.",
        )
        for name, row in directions.items()
        if (rate := row.get("off_target") or 0.0) - (usual := row.get("off_target_references") or 0.0) > OFF_TARGET
    ]


def mean_shares(mixture: Series, *, since: int, until: int) -> dict[str, float]:
    """The mean q of each direction over these updates: a mixture holds until the next one is chosen."""
    ends = [*mixture.steps[1:], max(until, *mixture.steps)] if mixture.steps else []
    lengths = [max(0, min(end, until) - max(start, since)) for start, end in zip(mixture.steps, ends, strict=True)]
    if mixture.steps and not any(lengths):  # nothing was trained yet
        lengths[-1] = 1
    found = {}
    for name, shares in mixture.values.items():
        known = [(length, share) for length, share in zip(lengths, shares, strict=True) if share is not None]
        total = sum(length for length, _ in known)
        if total:
            found[name] = sum(length * share for length, share in known) / total
    return found
