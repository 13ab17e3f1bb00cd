"""The tables that `evenglot train` prints at the start and at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from evenglot.runs.events import AverageEvent, ConfigEvent, Event, ValidationEvent
from evenglot.runs.standings import Standings, best_validation, reweights
from evenglot.tables import table
from evenglot.wording import counted, duration, number, percent


def start_table(event: ConfigEvent) -> Table:
    """Size, initial mixture and planned passes per direction, largest first."""
    facts = event.directions
    rows = {
        name: [
            f"{facts[name].pairs:,}",
            f"{facts[name].target_tokens:,}",
            percent(facts[name].p),
            percent(facts[name].q),
            number(facts[name].passes_per_interval),
            number(facts[name].total_passes, 1),
        ]
        for name in sorted(facts, key=lambda name: -facts[name].pairs)
    }
    columns = ["pairs", "target tokens", "p %", "q %", "per interval", "total"]
    of = "the loss" if reweights(event) else "the samples"
    notes = f"p: share of the data; q: initial share of {of}.\nper interval, total: passes over the corpus."
    return _with_notes(table("Planned training data", rows, columns), notes)


def _with_notes(result: Table, notes: str) -> Table:
    result.caption, result.caption_justify = notes, "left"
    result.min_width = max(map(len, (str(result.title), *notes.splitlines())))
    return result


def start_summary(event: ConfigEvent) -> str:
    """Strategy, model size, hardware and length of the run, in two lines."""
    interval = event.updates_per_interval
    intervals = f", about {interval:,.0f} per interval" if interval else ""
    seconds = event.seconds_estimated
    time = f"; about {duration(seconds)}" if seconds else ""
    trained = "" if event.trained is None else f" ({_size(event.trained)} trained)"
    return (
        f"{event.strategy}, {_size(event.parameters)} parameters{trained}, {event.device}, {event.precision}, "
        f"{counted(event.processes, 'process', 'processes')} x {counted(event.threads, 'thread')}.\n"
        f"{counted(event.updates, 'update')} of at most {event.tokens_per_update:,.0f} tokens{intervals}{time}."
    )


def _size(parameters: int) -> str:
    return f"{parameters / 1e6:,.1f} million" if parameters >= 1e6 else f"{parameters:,}"


def end_table(events: Sequence[Event]) -> Table:
    """Passes, shares and losses per direction at the end of a run, largest first."""
    standings = Standings()
    standings.take(events)
    best = best_validation(events)
    valid = (best and best.loss) or {}
    chrf = (best.chrf if isinstance(best, ValidationEvent) else None) or {}
    rows = {}
    for name in sorted(standings.directions, key=lambda name: -standings[name].pairs):
        direction = standings[name]
        rows[name] = [
            f"{direction.pairs:,}",
            number(standings.passes(name), 1),
            percent(direction.first_q),
            percent(direction.q),
            number(direction.train_loss, 3),
            number(valid.get(name), 3),
            *([number(chrf.get(name), 1)] if chrf else []),
        ]
    columns = ["pairs", "passes", "first q", "last q", "train", "valid", *(["chrF"] if chrf else [])]
    of = "the loss" if standings.reweights else "the samples"
    notes = f"q: share of {of}, in %; train: last training loss."
    if best is not None:
        averaged = " (averaged)" if isinstance(best, AverageEvent) else ""
        notes += f"\nvalid: validation loss of the best model{averaged}, after {counted(best.step, 'update')}."
    return _with_notes(table("Results per direction", rows, columns), notes)
