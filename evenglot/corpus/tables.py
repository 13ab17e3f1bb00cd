"""What `evenglot prepare` prints."""

from __future__ import annotations

from rich.table import Table

from evenglot.corpus.store import Store
from evenglot.tables import table

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


def count(number: int) -> str:
    """A count for a cell; a dash for none."""
    return f"{number:,}" if number else "-"


def store_table(store: Store) -> Table:
    """One row per direction: what was written."""
    rows = {}
    for name in sorted(store.directions, key=lambda name: -store.sizes[name]):
        splits = store.manifest["directions"][name]
        train = splits["train"]
        removed = sum(train["removed"].values())
        rows[name] = [
            f"{train['pairs']:,}",
            count(removed),
            f"{train['source_tokens']:,}",
            f"{train['target_tokens']:,}",
            *(f"{splits[split]['pairs']:,}" if split in splits else "-" for split in ("valid", "test")),
        ]
    columns = ["pairs", "removed", "source tokens", "target tokens", "valid", "test"]
    return table("The store", rows, columns)


def removed_table(store: Store) -> Table | None:
    """Removed pairs per set and reason; None if none were removed."""
    rows = {
        f"{name} {split}": row["removed"]
        for name, splits in store.manifest["directions"].items()
        for split, row in splits.items()
        if any(row["removed"].values())
    }
    reasons = sorted({reason for row in rows.values() for reason, count in row.items() if count})
    cells = {name: [count(row.get(reason, 0)) for reason in reasons] for name, row in rows.items()}
    headings = [PROBLEMS.get(reason, reason.replace("_", " ")) for reason in reasons]
    return table("Removed pairs", cells, headings) if rows else None


def vocabulary_table(store: Store) -> Table:
    """Coverage of each language by the vocabularies."""
    rows = {
        language: [
            f"{100 * served['unknown']:.3f}",
            f"{served['pieces_per_word']:.2f}",
            f"{100 * served['characters']:.1f}",
        ]
        for language, served in store.manifest["vocabulary"]["coverage"].items()
    }
    pieces = store.manifest["vocabulary"]["pieces"]
    title = f"Vocabularies: {pieces['source']:,} source subwords, {pieces['target']:,} target subwords"
    return table(title, rows, ["unknown %", "subwords per word", "characters %"])
