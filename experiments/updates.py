"""How good translations are after so many updates, by the size of a language's corpus: python -m experiments.updates

From the validations of kept ERM runs into English (chrF of greedy translations of a sample), for docs/training.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evenglot.runs.events import ConfigEvent, Event, ValidationEvent, of_kind
from evenglot.runs.log import read_log
from experiments.kept import HERE, runs_of

SETTINGS = {"related-long": "67,405", "diverse": "325,259"}  # folder: sentence pairs of all languages
STEPS = (1000, 2000, 3000, 4000, 6000, 9000)
SIZES = {"100,000 or more": 100_000, "30,000 to 99,999": 30_000, "10,000 to 29,999": 10_000, "2,000 to 9,999": 2_000}
FEWEST = "fewer than 2,000"


def table() -> str:
    """Rows: sizes of corpora in each setting; columns: updates. Means over languages and seeds."""
    heading = ["all pairs", "pairs of a language", "languages", *(f"{step:,}" for step in STEPS)]
    lines = [heading, ["---"] * len(heading)]
    for folder, pairs in SETTINGS.items():
        logs = [read_log(run.log_file) for run in runs_of(HERE / folder, "any-en", "erm")]
        for size, names in _by_size(logs[0]).items():
            lines.append([pairs, size, str(len(names)), *(_mean(logs, names, step) for step in STEPS)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _by_size(log: Sequence[Event]) -> dict[str, list[str]]:
    """Directions by the size of their corpora, largest first."""
    (about,) = of_kind(log, ConfigEvent)
    found: dict[str, list[str]] = {label: [] for label in (*SIZES, FEWEST)}
    for name, facts in about.directions.items():
        found[next((label for label, least in SIZES.items() if facts.pairs >= least), FEWEST)].append(name)
    return {label: names for label, names in found.items() if names}


def _mean(logs: Sequence[Sequence[Event]], names: Sequence[str], step: int) -> str:
    """Of these directions at this step; '-' if the runs were shorter."""
    at_step = [event.chrf for log in logs for event in of_kind(log, ValidationEvent) if event.step == step]
    values = [value for chrf in at_step for name in names if (value := (chrf or {}).get(name)) is not None]
    return f"{fmean(values):.0f}" if values else "-"


if __name__ == "__main__":
    print(table())
