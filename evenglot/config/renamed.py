"""Keys renamed since earlier versions: old configurations still load, with a hint about the new name."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from evenglot.config.errors import ConfigError, Keys, show
from evenglot.config.source import Source

RENAMED: Mapping[Keys, Keys] = {
    ("batches", "epoch_size"): ("batches", "interval_pairs"),
    ("balance", "interval_size"): ("batches", "interval_pairs"),
    ("balance", "intervals"): ("train", "intervals"),
    ("data", "tsv_columns"): ("data", "columns"),
}
_hinted: set[Keys] = set()  # keys for which this process has printed a hint


def update_keys(source: Source, hints: bool = True) -> None:
    """Replace old keys by new ones. ConfigError if an old key and its successor have different values."""
    errors = []
    for old, new in RENAMED.items():
        if hints and (old in source or old in source.renamed):
            _hint(source, old, new)
        if old in source:
            place, given, known = source.place(old), source.get(old), source.get(new)
            if given is not None and known is not None and given != known:
                name, successor = ".".join(old), ".".join(new)
                errors.append(
                    f"{place}: {name}: {show(given)}, but {successor} is {show(known)} ({source.place(new)}); "
                    "these are two names of the same key; remove the old one"
                )
            source.move(old, new)
    if errors:
        raise ConfigError(errors)


def _hint(source: Source, old: Keys, new: Keys) -> None:
    """Print a hint, once per key and process."""
    if old not in _hinted:
        _hinted.add(old)
        place = f"--set {'.'.join(old)}" if old in source.renamed else source.place(old)
        print(f"evenglot: {place}: {'.'.join(old)} is now {'.'.join(new)}", file=sys.stderr)
