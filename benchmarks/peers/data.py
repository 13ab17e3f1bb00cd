"""The prepared corpus as text for the peers: one line per sentence, each subword written as `t` and its number.

The numbers are those of our vocabularies, so all toolkits train on the same subwords, the language tag included. Words
made of them survive any way of splitting text, and the files have no readable sentence.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from evenglot.corpus.store import Store
from evenglot.directions import SIDES
from evenglot.files import write_text
from evenglot.sequences import Sequences
from evenglot.symbols import EOS, PAD

VALIDATION_LINES = 32  # two toolkits require a validation set; it is never used


def export(store: Store, folder: Path) -> None:
    """Write train.*, valid.* and vocabulary.* for *: source, target; the training pairs in one random order.

    `source-with-end` has a word for </s> at the end of each source, for a toolkit that adds none there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sides: dict[str, list[str]] = {side: [] for side in SIDES}
    for name in sorted(store.directions):
        corpus = store.corpus(name, "train")
        for side in SIDES:
            sides[side] += lines(getattr(corpus, side))
    order = np.random.default_rng(1).permutation(len(sides["source"]))
    for side, text in sides.items():
        shuffled = [text[row] for row in order]
        pieces = store.manifest["vocabulary"]["pieces"][side]
        write_text(folder / f"train.{side}", "\n".join(shuffled) + "\n")
        write_text(folder / f"valid.{side}", "\n".join(shuffled[:VALIDATION_LINES]) + "\n")
        words = [word(number) for number in range(PAD + 1, pieces)]
        write_text(folder / f"vocabulary.{side}", "\n".join(words) + "\n")
        if side == "source":
            end = word(EOS)
            write_text(folder / "train.source-with-end", "".join(f"{line} {end}\n" for line in shuffled))
            write_text(folder / "vocabulary.source-with-end", "\n".join([end, *words]) + "\n")


def lines(sequences: Sequences) -> list[str]:
    """Each sequence as words, without the </s> at its end, which every toolkit adds itself."""
    return [
        " ".join(map(word, sequences.ids[first : last - 1].tolist())) for first, last in pairwise(sequences.offsets)
    ]


def word(number: int) -> str:
    """Special symbols keep ours: an unknown subword is `t1`, unknown to the peers as well."""
    return f"t{number}"
