"""Checksums of the results of a run that a grid has stored: nothing else would notice that a file is of another run."""

from __future__ import annotations

from pathlib import Path

from evenglot.files import write_json
from evenglot.reading import read_json
from evenglot.runs.run import RunError
from evenglot.seals import checksums, refuse_changed, sealed, unsealed

CHECKSUMS = "checksums.json"
ADVICE = f"restore it, or delete {CHECKSUMS} beside it if you changed it on purpose"


def seal_results(folder: Path) -> None:
    """Write the checksums of all files."""
    write_json(folder / CHECKSUMS, sealed({"files": checksums(folder)}))


def refuse_changed_results(folder: Path) -> None:
    """RunError if a file has changed since the results were stored. Runs that are not stored have no checksums."""
    file = folder / CHECKSUMS
    if not file.is_file():
        return
    try:
        expected = unsealed(read_json(file))["files"]
        found = {name: (int(size), int(crc)) for name, (size, crc) in expected.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{file}: damaged ({error}); delete it if the results are those that were stored") from error
    try:
        refuse_changed(folder, found, ADVICE)
    except ValueError as error:
        raise RunError(str(error)) from error
