"""Convert the published files of the WMT news translation tasks to our layout.

Training text is two plain files or a TSV; validation and test sets can also be SGML (sgm.py).
"""

from __future__ import annotations

import random
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evenglot.config.patterns import UNREADABLE
from evenglot.corpus.read import CorpusError, Pair, read_pairs, reject_invalid
from evenglot.corpus.sentence_keys import repeated
from evenglot.files import digest
from evenglot.paper.layout import FROM_ENGLISH, SPLITS, Manifest, PairWriter, create
from evenglot.paper.sgm import aligned
from evenglot.text_file import TextFile, kind_of

Item = TypeVar("Item")


@dataclass(frozen=True)
class Cleaning:
    """Cleaning steps for training pairs of a language, in this order; empty and non-UTF-8 pairs are always removed."""

    normalise: bool = False  # punctuation and non-printable characters
    deduplicate: bool = False
    sample: int | None = None  # maximum number of pairs, sampled at random


# The paper's settings. Its subword filters (2 to 250, ratio 1.5) need a vocabulary: they are in recipes/wmt.yaml.
WMT4: Mapping[str, Cleaning] = {
    "deu": Cleaning(sample=2_500_000),
    "fra": Cleaning(normalise=True, deduplicate=True, sample=1_800_000),
    "tam": Cleaning(),
    "tur": Cleaning(),
}
WMT = {
    "recipe": "wmt",
    "from": "News translation tasks of WMT14 (deu, fra), WMT20 (tam) and WMT18 (tur), https://www.statmt.org",
}

Side = Path | TextFile
Source = Path | tuple[Side, Side]  # a TSV with the language and English in columns 1 and 2, or one file per side
Sides = tuple[TextFile, TextFile]
Inputs = Mapping[str, Mapping[str, Source | list[Source]]]  # by language and split


def wmt(
    inputs: Inputs,
    out: Path,
    *,
    cleaning: Mapping[str, Cleaning] = WMT4,
    expected: Mapping[str, Mapping[str, int | None]] | None = None,
    seed: int = 1,
    overwrite: bool = False,
    files: Mapping[str, str] | None = None,
) -> Manifest:
    """Write the corpora of `inputs`, which lists the files of each language and split, the language's side first:

        {"tur": {"train": [(Path("setimes.tr.gz"), Path("setimes.en.gz")), Path("more.tr-en.tsv")],
                 "test": (Path("newstest2018-tren-src.tr.sgm"), Path("newstest2018-tren-ref.en.sgm")),
                 "test_from_english": (Path("newstest2018-entr-ref.tr.sgm"), Path("newstest2018-entr-src.en.sgm"))}}

    `test_from_english` and `valid_from_english` are used for the direction from English, if they are not the same.
    `expected`: numbers of pairs by language and split; others are worth a warning. `files`: other files to write.
    Files are plain text, TSV or SGML, optionally .gz or .zst; `TextFile(path, 1)` is the second column of a TSV.
    Training text is read twice, so it need not fit into memory. Validation and test sets are not cleaned.
    """
    _check_names(inputs, cleaning)
    with create(out, WMT, overwrite, files) as layout:
        for language, splits in inputs.items():
            for split, given in splits.items():
                sides = [_sides(source) for source in (given if isinstance(given, list) else [given])]
                layout.made_from(side.path for pair in sides for side in pair)
                with layout.writer(split, language) as writer:
                    if split == "train":
                        rules = cleaning[language]
                        _write_training(writer, partial(_training, sides, rules.normalise), rules, f"{seed} {language}")
                        if rules.sample is not None and writer.pairs < rules.sample:
                            layout.warn(f"{language} train: {writer.pairs:,} pairs, but {rules.sample:,} in the paper")
                    else:
                        for source, target in _held_out(sides):
                            writer.write(source, target)
                layout.expect(language, split, (expected or {}).get(language, {}).get(split), "were published")
    return layout.manifest


def _check_names(inputs: Mapping[str, Mapping[str, Any]], cleaning: Mapping[str, Cleaning]) -> None:
    for language, splits in inputs.items():
        if language not in cleaning:
            raise CorpusError(f"{language!r}: not a language of this recipe; expected {', '.join(cleaning)}")
        for split in splits:
            if split not in (*SPLITS, *(f"{each}{FROM_ENGLISH}" for each in SPLITS[1:])):
                raise CorpusError(f"{language}: unknown split {split!r}; expected {', '.join(SPLITS)}")


def _sides(source: Source) -> Sides:
    """The files of both sides; CorpusError if their names have unsupported extensions."""
    if isinstance(source, tuple):
        left, right = (side if isinstance(side, TextFile) else TextFile(side) for side in source)
    elif kind_of(source.name) == "tsv":
        left, right = TextFile(source, 0), TextFile(source, 1)
    else:
        raise CorpusError(f"{source}: a single file for both sides must be a .tsv; otherwise give two files")
    for side in (left, right):
        if side.path.name.endswith(UNREADABLE) or kind_of(side.path.name) not in ("text", "tsv"):
            raise CorpusError(
                f"{side.path}: unpack it first; expected plain text, .tsv or .sgm, optionally with .gz or .zst"
            )
        if kind_of(side.path.name) == "tsv" and side.column is None:
            raise CorpusError(f"{side.path}: a .tsv holds both sides; give it alone, not as one of two files")
    return left, right


def _pairs(sides: Sides) -> Iterator[Pair | None]:
    """The pairs of two files of any supported format; None where a line is not UTF-8."""
    left, right = sides
    if any(".sgm" in side.path.suffixes for side in sides):
        return aligned(left.path, right.path)
    return read_pairs(left, right)


def _training(sides: list[Sides], normalised: bool) -> Iterator[Pair | None]:
    """The training pairs of all files, optionally normalised."""
    for pair in chain.from_iterable(map(_pairs, sides)):
        yield (normalise(pair[0]), normalise(pair[1])) if pair and normalised else pair


def _held_out(sides: list[Sides]) -> Iterator[Pair]:
    """The pairs of all validation or test files; CorpusError at a line that is not UTF-8."""
    for left, right in sides:
        yield from reject_invalid(_pairs((left, right)), left, right, "convert the file")


def _write_training(writer: PairWriter, read: Callable[[], Iterator[Pair | None]], rules: Cleaning, seed: str) -> None:
    """Read once to select pairs, using one byte of memory per pair (nine to deduplicate), and again to write them."""
    good, keys = bytearray(), array("Q")
    for pair in read():
        fault = "invalid_utf8" if pair is None else "" if all(pair) else "empty"
        good.append(not fault)
        if fault:
            writer.removed[fault] += 1
        elif pair and rules.deduplicate:
            keys.append(int(digest("\n".join(pair).encode()), 16))
    kept = np.array(good, dtype=bool)
    if rules.deduplicate:
        again = repeated(np.array(keys))
        kept[kept] = ~again
        writer.removed["duplicate"] += int(np.count_nonzero(again))
    left = int(np.count_nonzero(kept))
    size = left if rules.sample is None else min(left, rules.sample)
    writer.removed["not_sampled"] += left - size
    for pair in sample(compress(read(), kept), left, size, seed):
        if pair:
            writer.write(*pair)


def sample(items: Iterable[Item], total: int, size: int, seed: str) -> Iterator[Item]:
    """A uniform random sample of `size` of `total` items, in their order (Knuth's algorithm S)."""
    generator = random.Random(seed)  # unlike NumPy's generators, stable across versions
    for item in items:
        if generator.random() * total < size:
            size -= 1
            yield item
        total -= 1


QUOTES = re.compile(r"«\s?|\s?»|[“”„]")
PSEUDO_SPACE = re.compile("[\u00a0\u202f](?=[;:!?%])")  # French puts a no-break space before some punctuation
PUNCTUATION = str.maketrans(
    {**dict.fromkeys("‘’‚´`", "'"), "–": "-", "—": " - ", "…": "...", "\u00a0": " ", "\u202f": " "}
)


def normalise(text: str) -> str:
    """Replace typographic punctuation by ASCII and non-printable characters by spaces.

    This covers the main rules of the two Moses scripts for this purpose, not all of them.
    """
    if text.isascii() and text.isprintable():  # fast path for most English text
        return text.replace("`", "'")
    text = PSEUDO_SPACE.sub("", QUOTES.sub('"', text)).translate(PUNCTUATION)
    if not text.isprintable():
        text = "".join(" " if unicodedata.category(character)[0] == "C" else character for character in text)
    return text.strip()
