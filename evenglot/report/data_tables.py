"""What `evenglot check` and `evenglot prepare` print."""

from __future__ import annotations

from rich.table import Table

from evenglot.corpus.check import Check, Row
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


def check_tables(check: Check) -> list[Table]:
    """What there is to train on; and, if anything is wrong with it, how many pairs each rule objects to."""
    by_size = sorted(check.rows, key=lambda row: -row.kept)
    rows = {row.direction: _cells(row) for row in by_size}
    pairs, kept = sum(row.pairs for row in by_size), sum(row.kept for row in by_size)
    rows["all"] = [f"{pairs:,}", f"{kept:,}", "100", "", "", f"{check.epoch_tokens:,}", "", ""]
    columns = ["pairs", "kept", "p %", "passes", "at most", "tokens", "valid", "test"]
    tables = [table("Training data", rows, columns)]
    found = [reason for reason in PROBLEMS if any(row.problems[reason] for row in by_size)]
    if found:
        problems = {row.direction: [_count(row.problems[reason]) for reason in found] for row in by_size}
        problems["removed?"] = ["yes" if reason in check.rules else "no" for reason in found]
        tables.append(table("Pairs with problems", problems, [PROBLEMS[reason] for reason in found]))
    return tables


def _cells(row: Row) -> list[str]:
    most = "no limit" if row.most_passes is None else f"{row.most_passes:.1f}"
    share, held_out = f"{100 * row.share:.1f}", [_count(row.valid or 0), _count(row.test or 0)]
    return [f"{row.pairs:,}", f"{row.kept:,}", share, f"{row.passes:.1f}", most, f"{row.target_tokens:,}", *held_out]


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def check_summary(check: Check) -> str:
    """The sizes of the task in a few lines."""
    hours = check.epoch_seconds / 3600
    time = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes" if hours > 1 / 60 else "under a minute"
    return (
        f"All data once are about {check.epoch_tokens / 1e6:,.2f} million target tokens (estimated from characters): "
        f"{time} for a tiny model on one CPU core.\n"
        "passes: over each corpus in the first interval; at most: what the strategy can ask for in any interval; "
        "tokens: target tokens, estimated."
    )


def store_table(store: Store) -> Table:
    """One row a direction: what was written."""
    rows = {}
    for name in sorted(store.directions, key=lambda name: -store.sizes[name]):
        splits = store.manifest["directions"][name]
        train = splits["train"]
        removed = sum(train["removed"].values())
        rows[name] = [
            f"{train['pairs']:,}",
            _count(removed),
            f"{train['source_tokens']:,}",
            f"{train['target_tokens']:,}",
            *(f"{splits[split]['pairs']:,}" if split in splits else "-" for split in ("valid", "test")),
        ]
    columns = ["pairs", "removed", "source tokens", "target tokens", "valid", "test"]
    return table("The store", rows, columns)


def removed_table(store: Store) -> Table | None:
    """How many pairs were left out of each set, and why; None if all are there."""
    rows = {
        f"{name} {split}": row["removed"]
        for name, splits in store.manifest["directions"].items()
        for split, row in splits.items()
        if any(row["removed"].values())
    }
    reasons = sorted({reason for row in rows.values() for reason, count in row.items() if count})
    cells = {name: [_count(row.get(reason, 0)) for reason in reasons] for name, row in rows.items()}
    headings = [PROBLEMS.get(reason, reason.replace("_", " ")) for reason in reasons]
    return table("Pairs left out", cells, headings) if rows else None


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
