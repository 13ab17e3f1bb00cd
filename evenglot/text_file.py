"""One side of a parallel corpus on disk, and the formats that a corpus can have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["text", "tsv", "jsonl", "parquet", "arrow", "dataset", "zip"]
KINDS: dict[str, Kind] = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".zip": "zip",
}
DATASET = "state.json"  # the file that lists the content of a dataset folder, as saved by Hugging Face
IN_LINES: tuple[Kind, ...] = ("tsv", "jsonl")  # both sides are in one line; these can be compressed
WITH_PYARROW: tuple[Kind, ...] = ("parquet", "arrow", "dataset")


class CorpusError(ValueError):
    """A problem with a text file; the message says where, what and how to fix it."""


def kind_of(path: str) -> Kind:
    """The format of a file, by its name. All but "text" hold both sides."""
    if path.rpartition("/")[2] == DATASET:
        return "dataset"
    bare = path.removesuffix(".gz").removesuffix(".zst")
    kind: Kind = KINDS.get(f".{bare.rpartition('.')[2]}", "text")
    return kind if bare == path or kind in IN_LINES else "text"


@dataclass(frozen=True)
class TextFile:
    """Location of one side of a corpus: a text file, or a part of a file that holds both sides.

    `column` is the part: of a TSV, a 0-based number or a name in the header; of other tables, a name; of a zip, the
    ending of the member's name.
    """

    path: Path
    column: int | str | None = None

    @property
    def kind(self) -> Kind:
        """The format. Columns of a file that has another ending are those of a TSV."""
        if self.column is None:
            return "text"
        kind = kind_of(self.path.as_posix())
        return "tsv" if kind == "text" else kind

    @property
    def headers(self) -> int:
        """The number of lines before the text."""
        return int(self.kind == "tsv" and isinstance(self.column, str))

    def __str__(self) -> str:
        """The path, for messages; for a member of a zip with its ending, for a dataset without its list of files."""
        if self.kind == "zip":
            return f"{self.path}/*.{self.column}"
        return str(self.path.parent if self.kind == "dataset" else self.path)


Sides = tuple[TextFile, TextFile]  # source and target
Corpus = tuple[Sides, ...]  # the text of a direction: one or more files, one after the other
