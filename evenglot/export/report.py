"""What exports to Hugging Face share: the folder that may be replaced, and the comparison with the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SAMPLE = 50  # number of sentences used to compare both models
BATCH = 10  # sentences per batch: logits of a large vocabulary take much memory
LONGEST = 200  # maximum number of subwords of a translation in the comparison
IDENTICAL = 0.99  # required share of identical translations
TOLERANCE = 1e-4  # largest difference of logits
MARKER = "evenglot.json"  # marks a folder as an export, which may be replaced


@dataclass(frozen=True)
class Report:
    """The result of an export. If `sentences` is 0, the models were not compared."""

    folder: Path
    sentences: int  # number of validation sentences that both models translated
    identical: int  # number of identical translations
    logit_difference: float  # the largest difference

    def __str__(self) -> str:
        if not self.sentences:
            return f"{self.folder}: written, but not compared with the original: no store with validation text"
        return f"{self.folder}: {self.identical} of {self.sentences} greedy translations are identical; {self._logits}"

    @property
    def summary(self) -> str:
        """For the model card."""
        if not self.sentences:
            return "This export was not compared with the original model: there was no validation text."
        return (
            f"Comparison with the original model on {self.sentences} validation sentences: {self.identical} greedy "
            f"translations are identical, and {self._logits}."
        )

    @property
    def _logits(self) -> str:
        return f"logits differ by at most {self.logit_difference:.1e}" if self.logit_difference else "so are all logits"

    def refuse_difference(self) -> None:
        """ValueError if the models differ."""
        if self.identical < IDENTICAL * self.sentences or not self.logit_difference <= TOLERANCE:
            raise ValueError(f"not written, because the exported model differs from the original: {self}")


def refuse_other_content(folder: Path, written: Iterable[str]) -> None:
    """Raise ValueError unless the folder is absent, empty or an earlier export."""
    if not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not folder.is_dir() or (names and MARKER not in names):
        raise ValueError(f"{folder}: exists and is not an export; choose another folder with --out")
    if others := sorted(names - set(written)):
        raise ValueError(f"{folder}: contains files that no export wrote ({others[0]}, ...); choose another with --out")
