"""What `evenglot check` and `evenglot prepare` print."""

from __future__ import annotations

from rich.table import Table

from evenglot.corpus.check import TOKENS_PER_SECOND, Check, Row
from evenglot.corpus.store import Store
from evenglot.report.tables import table

PROBLEMS = {  # short names for narrow columns
    "invalid_utf8": "UTF-8",
    "empty": "empty",
    "identical": "same",
    "too_long": "long",
    "ratio": "ratio",
    "wrong_script": "script",
    "duplicate": "repeat",
    "leakage": "leak",
}


def check_table(check: Check) -> Table:
    """One row a direction: pairs, problems of each kind, what is left and how often it will be shown."""
    found = [reason for reason in PROBLEMS if any(row.problems[reason] for row in check.rows)]
    rows = {row.direction: _cells(row, found) for row in sorted(check.rows, key=lambda row: -row.kept)}
    kept = sum(row.kept for row in check.rows)
    total = {reason: sum(row.problems[reason] for row in check.rows) for reason in found}
    pairs = sum(row.pairs for row in check.rows)
    rows["all"] = [f"{pairs:,}", *(_count(total[reason]) for reason in found), f"{kept:,}", "100", "", ""]
    columns = ["pairs", *(PROBLEMS[reason] for reason in found), "kept", "p %", "passes", "at most"]
    return table("Training data, and what is wrong with it", rows, columns)


def _cells(row: Row, found: list[str]) -> list[str]:
    most = "no limit" if row.most_passes is None else f"{row.most_passes:.1f}"
    problems = [_count(row.problems[reason]) for reason in found]
    return [f"{row.pairs:,}", *problems, f"{row.kept:,}", f"{100 * row.share:.1f}", f"{row.passes:.1f}", most]


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def check_summary(check: Check) -> str:
    """The sizes of the task in a few lines."""
    hours = check.epoch_tokens / TOKENS_PER_SECOND / 3600
    time = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes" if hours > 1 / 60 else "under a minute"
    return (
        f"One epoch is about {check.epoch_tokens / 1e6:,.2f} million target tokens (estimated from characters): "
        f"{time} for a tiny model on one CPU core.\n"
        "passes: over each corpus in the first epoch; at most: what the strategy can ask for in any epoch."
    )


def store_table(store: Store) -> Table:
    """One row a direction: what was written."""
    rows = {}
    for name in sorted(store.directions, key=lambda name: -store.sizes[name]):
        splits = store.manifest["directions"][name]
        train = splits["train"]
        removed = sum(train["removed"].values()) + sum(train["cleaned"].values())
        rows[name] = [
            f"{train['pairs']:,}",
            _count(removed),
            f"{train['source_tokens']:,}",
            f"{train['target_tokens']:,}",
            *(f"{splits[split]['pairs']:,}" if split in splits else "-" for split in ("valid", "test")),
        ]
    columns = ["pairs", "removed", "source tokens", "target tokens", "valid", "test"]
    return table("The store", rows, columns)


def vocabulary_table(store: Store) -> Table:
    """How well the vocabularies serve each language."""
    rows = {
        language: [
            f"{100 * served['unknown']:.3f}",
            f"{served['pieces_per_word']:.2f}",
            f"{100 * served['characters']:.1f}",
        ]
        for language, served in store.manifest["vocabulary"]["coverage"].items()
    }
    pieces = store.manifest["vocabulary"]["pieces"]
    title = f"Vocabularies: {pieces['source']:,} source pieces, {pieces['target']:,} target pieces"
    return table(title, rows, ["unknown %", "pieces per word", "characters %"])
