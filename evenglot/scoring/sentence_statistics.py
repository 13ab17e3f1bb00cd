"""statistics.npz: counts per sentence and metric, from which any sample of sentences can be scored.

It contains no text, so it can be shared even if the test set cannot.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from evenglot.files import digest, finished_file
from evenglot.scoring.metrics import METRICS, Counts

DAMAGED = (OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, BadZipFile, zlib.error)  # in an archive


def references_digest(references: Sequence[str]) -> str:
    """Digest of a test set; systems scored on the same references can be compared sentence by sentence."""
    return digest("\n".join(references).encode())


@dataclass(frozen=True, eq=False)
class SentenceStatistics:
    """Counts by direction and metric, and the digest of each direction's references."""

    counts: Mapping[str, Mapping[str, Counts]]
    references: Mapping[str, str]

    def save(self, file: Path) -> None:
        """Write a NumPy archive atomically."""
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, by_metric in self.counts.items():
            arrays[f"{name}/references"] = np.array(self.references[name])
            arrays |= {f"{name}/{metric}": _compact(values) for metric, values in by_metric.items()}
        with finished_file(file) as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)

    @staticmethod
    def load(file: Path) -> SentenceStatistics:
        """Read a file written by `save`. Raises ValueError if it is damaged."""
        counts: dict[str, dict[str, Counts]] = {}
        references: dict[str, str] = {}
        try:
            with file.open("rb") as content:  # np.load would leave it open if it is not an archive
                archive = np.load(content, allow_pickle=False)
                for key in archive.files:
                    name, _, what = key.partition("/")
                    if what == "references":
                        references[name] = str(archive[key])
                    elif what in METRICS:
                        counts.setdefault(name, {})[what] = archive[key]
            if not counts or counts.keys() != references.keys():
                raise ValueError("not sentence statistics")
        except (*DAMAGED, AttributeError) as error:  # a single array has no `files`
            raise ValueError(f"{file}: cannot be read; run `evenglot score` again") from error
        return SentenceStatistics(counts, references)


def _compact(values: Counts) -> Counts:
    """Convert to the smallest sufficient integer type, or to single precision."""
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(np.min_scalar_type(int(values.max(initial=0))))
    return values.astype(np.float32)
