"""statistics.npz: counts per sentence and metric, from which any sample of sentences can be scored.

It contains no text, so it can be shared even if the test set cannot.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from evenglot.files import digest, finished_file
from evenglot.reading import read_bytes
from evenglot.scoring.metrics import METRICS, Counts, Metric

LARGEST = 1 << 30  # bytes of the file, and of an array in it
LARGEST_COUNT = 1e15  # of anything in a sentence
# What a damaged archive may raise: a wrong header is evaluated as a Python literal, and compression may be unknown.
DAMAGED = (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, SyntaxError, BadZipFile, zlib.error)


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
        with finished_file(file, own=True) as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)

    @staticmethod
    def load(file: Path) -> SentenceStatistics:
        """Read a file written by `save`. Raises ValueError if it is damaged, or has something else in it."""
        counts: dict[str, dict[str, Counts]] = {}
        references: dict[str, str] = {}
        try:
            with ZipFile(BytesIO(read_bytes(file, LARGEST))) as archive:
                for member in archive.infolist():
                    name, _, what = member.filename.removesuffix(".npy").partition("/")
                    if what == "references":
                        references[name] = _text(_array(archive, member))
                    elif what in METRICS:
                        counts.setdefault(name, {})[what] = _counts(_array(archive, member), METRICS[what])
            if not counts or counts.keys() != references.keys():
                raise ValueError("not sentence statistics")
            for by_metric in counts.values():
                if len({len(values) for values in by_metric.values()}) > 1:
                    raise ValueError("different numbers of sentences")
        except DAMAGED as error:
            raise ValueError(f"{file}: cannot be read; run `evenglot score` again") from error
        return SentenceStatistics(counts, references)


def _array(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    """An array of an archive. Its header must promise what the archive says it has, before memory is allocated."""
    if not 0 < member.file_size <= LARGEST:
        raise ValueError("too large")
    with archive.open(member) as content:
        version = npy.read_magic(content)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = header(content)
        if kind.hasobject or math.prod(shape) * kind.itemsize != member.file_size - content.tell():
            raise ValueError("the array is not as large as its header says")
    with archive.open(member) as content:
        array: NDArray[Any] = npy.read_array(content, allow_pickle=False)
    return array


def _text(array: NDArray[Any]) -> str:
    if array.shape != () or array.dtype.kind != "U":
        raise ValueError("not a text")
    return str(array)


def _counts(array: NDArray[Any], metric: Metric) -> Counts:
    """Checked counts, (sentences, counts): finite, not negative, as many as the metric has."""
    if array.ndim != 2 or array.dtype.kind not in "iuf" or not array.size:
        raise ValueError("not counts")
    if metric.columns is not None and array.shape[1] != metric.columns:
        raise ValueError(f"not counts of {metric.label}")
    if not (float(array.min()) >= 0 and float(array.max()) <= LARGEST_COUNT):  # as floats: the limit is no float16
        raise ValueError("counts out of range")
    return array


def _compact(values: Counts) -> Counts:
    """Convert to the smallest sufficient integer type, or to single precision."""
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(np.min_scalar_type(int(values.max(initial=0))))
    return values.astype(np.float32)
