"""Scan the text that a configuration names: shared by `evenglot check` and `evenglot prepare`."""

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
SCRIPT_SAMPLE = 1000  # pairs of each corpus from which the scripts of a language are determined

Files = tuple[TextFile, TextFile]
Mask = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Context for judging training text: the held-out sentences, and the scripts of each language."""

    held_out: HeldOut
    usable: dict[tuple[str, str], Mask]  # by direction and split: pairs that are readable and not empty
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
                raise CorpusError(f"{files[0].path}: empty; remove `{split}` from the configuration if there is none")
            usable[direction.name, split] = np.array(good)
        for pair in islice(pairs_of(config, training_files(config, direction), "train"), SCRIPT_SAMPLE):
            if pair is not None:
                samples.setdefault(direction.src, []).append(pair[0])
                samples.setdefault(direction.tgt, []).append(pair[1])
    scripts = {language: main_scripts(sentences) for language, sentences in samples.items()}
    return Surroundings(held_out, usable, scripts)


def scan_training(config: Config, direction: Direction, around: Surroundings, bars: Bars) -> Scan:
    """Apply the cleaning rules to every training pair of a direction."""
    files = training_files(config, direction)
    with bars.task(f"reading {direction.name}", size_on_disk(files)) as advance:
        pairs = pairs_of(config, files, "train", advance)
        languages = (direction.src, direction.tgt)
        result = scan(pairs, languages, around.held_out, around.scripts, limits_of(config))
    if len(result) == 0:
        raise CorpusError(f"{files[0].path}: empty; no training data for {direction.name}")
    return result


def training_files(config: Config, direction: Direction) -> Files:
    """Source and target of the training corpus."""
    files = config.data.files(direction, "train")
    assert files is not None  # the configuration insists on training data
    return files


def limits_of(config: Config) -> Limits:
    """Thresholds of the rules: as configured, or, for disabled rules, the defaults that `check` counts with."""
    default = Limits()
    return Limits(config.clean.max_words or default.max_words, config.clean.max_ratio or default.max_ratio)


def rules_of(config: Config) -> list[str]:
    """The rules that remove training pairs. Text that is not UTF-8 is always removed."""
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

    In a test set it is always an error, because scores are comparable only on identical sets.
    """
    pairs = read_pairs(*files, on_read)
    if split == "test":
        return reject_invalid(pairs, *files, "convert the file; test sets are never filtered")
    if config.data.invalid_utf8 == "drop":
        return pairs
    return reject_invalid(pairs, *files, "convert the file, or set data.invalid_utf8: drop")


def select(items: Iterable[T], chosen: Mask, files: Files) -> Iterator[T]:
    """The chosen items; an error if the text changed length since it was scanned."""
    nothing = object()
    for item, wanted in zip_longest(items, chosen.tolist(), fillvalue=nothing):
        if item is nothing or wanted is nothing:
            raise CorpusError(f"{files[0].path}: changed while being read; run the command again")
        if wanted:
            yield cast(T, item)


def size_on_disk(files: Files) -> int:
    """Bytes to be read, for progress bars."""
    return sum(file.path.stat().st_size for file in files)
