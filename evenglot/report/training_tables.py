"""What `evenglot train` prints before it starts and when it is done."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from evenglot.report.tables import table
from evenglot.training.log import Event, Standings, best_validation, reweights


def duration(seconds: float) -> str:
    """A time in words, as exact as a person cares for: '45 s', '8 min', '2 h 51 min', '3 days 4 h'."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(minutes / 60)
    return f"{hours // 24} days {hours % 24} h"


def number(value: float | None, decimals: int = 2) -> str:
    """A number for a cell; a dash where there is none."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def percent(share: float | None) -> str:
    """A share of 1 in percent, without the sign; small ones get another digit."""
    if share is None:
        return "-"
    if 0 < share < 0.00005:
        return "<0.01"
    return f"{100 * share:.1f}" if share >= 0.01 or share == 0 else f"{100 * share:.2f}"


def start_table(event: Event) -> Table:
    """What the model will be shown of each direction; made from the `config` event, largest first."""
    facts = event["directions"]
    rows = {
        name: [
            f"{facts[name]['pairs']:,}",
            f"{facts[name]['target_tokens']:,}",
            percent(facts[name].get("p")),
            percent(facts[name].get("q")),
            number(facts[name].get("passes_per_interval")),
            number(facts[name].get("total_passes"), 1),
        ]
        for name in sorted(facts, key=lambda name: -facts[name]["pairs"])
    }
    columns = ["pairs", "target tokens", "p %", "q %", "interval", "in all"]
    of = "the loss" if reweights(event) else "what is shown"
    notes = f"p: share of the data; q: share of {of} at first.\ninterval, in all: passes over the corpus."
    return _with_notes(table("What the model will see", rows, columns), notes)


def _with_notes(result: Table, notes: str) -> Table:
    result.caption, result.caption_justify = notes, "left"
    return result


def start_summary(event: Event) -> str:
    """The run in two lines: what does the work, and how much of it there is."""
    interval = event.get("updates_per_interval")
    intervals = f", about {interval:,.0f} an interval" if interval else ""
    seconds = event.get("seconds_estimated")
    time = f"; about {duration(seconds)}" if seconds else ""
    return (
        f"{event['strategy']}, {_size(event['parameters'])} parameters, {event['device']}, {event['precision']}, "
        f"{_count(event['processes'], 'process', 'processes')} x {_count(event['threads'], 'thread', 'threads')}.\n"
        f"{event['updates']:,} updates of at most {event['tokens_per_update']:,.0f} tokens{intervals}{time}."
    )


def _size(parameters: int) -> str:
    return f"{parameters / 1e6:,.1f} million" if parameters >= 1e6 else f"{parameters:,}"


def _count(how_many: int, one: str, more: str) -> str:
    return f"{how_many:,} {one if how_many == 1 else more}"


def end_table(events: Sequence[Event]) -> Table:
    """What became of each direction: how often it was read, its shares, and its losses; largest first."""
    standings = Standings()
    standings.take(events)
    best = best_validation(events)
    valid, chrf = best.get("loss", {}), best.get("chrf") or {}
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
    of = "the loss" if standings.reweights else "what was shown"
    notes = f"q: share of {of}, in %; train: the last training loss."
    if best:
        averaged = ", an average" if best["event"] == "average" else ""
        notes += f"\nvalid: validation loss of the best model{averaged}, after {best['step']:,} updates."
    return _with_notes(table("What each direction got", rows, columns), notes)
