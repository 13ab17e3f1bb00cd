"""Look through the text that a configuration names: the parts that `evenglot check` and `evenglot prepare` share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from evenglot.config import Config
from evenglot.config.data import Split
from evenglot.corpus.clean import HeldOut, Limits, Scan, main_scripts, scan
from evenglot.corpus.read import Advance, CorpusError, Pair, read_pairs, reject_invalid
from evenglot.directions import Direction
from evenglot.progress import Bars
from evenglot.text_file import TextFile

HELD_OUT_SPLITS: tuple[Split, ...] = ("valid", "test")
SCRIPT_SAMPLE = 1000  # pairs of each corpus that show in which script a language is written

Files = tuple[TextFile, TextFile]
Mask = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What must be known before training text can be judged: the held-out sentences, and scripts by language."""

    held_out: HeldOut
    usable: dict[tuple[str, str], Mask]  # which pairs of a direction and held-out split are readable and not empty
    scripts: dict[str, frozenset[str]]


def read_surroundings(config: Config) -> Surroundings:
    """Read all validation and test sets, and the beginning of each training corpus."""
    held_out = HeldOut()
    usable: dict[tuple[str, str], Mask] = {}
    samples: dict[str, list[str]] = {}
    for direction in config.data.directions:
        for split in HELD_OUT_SPLITS:
            if (files := config.data.files(direction, split)) is None:
                continue
            good = []
            for pair in pairs_of(config, files, split):
                good.append(pair is not None and all(pair))
                if pair is not None:
                    held_out.add(direction.src, pair[0])
                    held_out.add(direction.tgt, pair[1])
            if not any(good):
                raise CorpusError(f"{files[0].path}: empty; leave `{split}` out of the configuration if there is none")
            usable[direction.name, split] = np.array(good)
        for pair in islice(pairs_of(config, training_files(config, direction), "train"), SCRIPT_SAMPLE):
            if pair is not None:
                samples.setdefault(direction.src, []).append(pair[0])
                samples.setdefault(direction.tgt, []).append(pair[1])
    scripts = {language: main_scripts(sentences) for language, sentences in samples.items()}
    return Surroundings(held_out, usable, scripts)


def scan_training(config: Config, direction: Direction, around: Surroundings, bars: Bars) -> Scan:
    """Judge every training pair of a direction."""
    files = training_files(config, direction)
    with bars.task(f"reading {direction.name}", size_on_disk(files)) as advance:
        pairs = pairs_of(config, files, "train", advance)
        languages = (direction.src, direction.tgt)
        result = scan(pairs, languages, around.held_out, around.scripts, limits_of(config))
    if len(result) == 0:
        raise CorpusError(f"{files[0].path}: empty; there is nothing to train {direction.name} on")
    return result


def training_files(config: Config, direction: Direction) -> Files:
    """Source and target of the training corpus."""
    files = config.data.files(direction, "train")
    assert files is not None  # the configuration insists on training data
    return files


def limits_of(config: Config) -> Limits:
    """The numbers behind the rules: those configured, and for rules that are off, those `check` reports by."""
    default = Limits()
    return Limits(config.clean.max_words or default.max_words, config.clean.max_ratio or default.max_ratio)


def rules_of(config: Config) -> list[str]:
    """Which rules remove training pairs? What is not UTF-8 cannot be kept."""
    clean = config.clean
    wanted = {
        "invalid_utf8": True,
        "empty": clean.empty,
        "identical": clean.identical,
        "too_long": clean.max_words is not None,
        "ratio": clean.max_ratio is not None,
        "wrong_script": clean.wrong_script,
        "duplicate": clean.duplicates,
        "leakage": clean.leakage,
    }
    return [rule for rule, on in wanted.items() if on]


def pairs_of(config: Config, files: Files, split: Split, on_read: Advance | None = None) -> Iterator[Pair | None]:
    """The pairs of a corpus; a line that is not UTF-8 is an error, or None if the configuration says `drop`.

    In a test set it is always an error: whoever compares scores must know that the sets are the same.
    """
    pairs = read_pairs(*files, on_read)
    if split == "test":
        return reject_invalid(pairs, *files, "convert the file: of a test set nothing is dropped")
    if config.data.invalid_utf8 == "drop":
        return pairs
    return reject_invalid(pairs, *files, "convert the file, or set data.invalid_utf8: drop")


def select(items: Iterable[T], chosen: Mask, files: Files) -> Iterator[T]:
    """Those items whose turn it is; an error if the text is not as long as it was when it was judged."""
    nothing = object()
    for item, wanted in zip_longest(items, chosen.tolist(), fillvalue=nothing):
        if item is nothing or wanted is nothing:
            raise CorpusError(f"{files[0].path}: changed while it was being read; run the command again")
        if wanted:
            yield cast(T, item)


def size_on_disk(files: Files) -> int:
    """Bytes that will be read, for progress bars."""
    return sum(file.path.stat().st_size for file in files)
