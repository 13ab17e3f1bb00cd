"""Scan the text that a configuration names: shared by `evenglot check` and `evenglot prepare`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from evenglot.config import Config
from evenglot.config.data_fields import Split
from evenglot.corpus.clean import Judge, Limits, Scan, combine
from evenglot.corpus.excerpt import excerpt
from evenglot.corpus.held_out import HeldOut
from evenglot.corpus.read import Block, CorpusError, Pair, paths_of, read_blocks
from evenglot.corpus.scripts import main_scripts
from evenglot.corpus.workers import each, processes_for
from evenglot.directions import Direction
from evenglot.progress import Bars
from evenglot.text_file import Corpus

HELD_OUT_SPLITS: tuple[Split, ...] = ("valid", "test")
SAMPLE = 100  # pairs of a corpus, of the beginning of training text, that are looked at more closely
SCRIPT_SAMPLE = 1000  # pairs of each corpus from which the scripts of a language are determined

SAMPLE_BYTES = 1 << 18  # about as much text

Mask = NDArray[np.bool_]
Labelled = tuple[Direction, Split, Corpus]


@dataclass(frozen=True)
class Sample:
    """What a validation or test set, or the beginning of training text, looks like."""

    pairs: tuple[Pair, ...]
    scripts: tuple[frozenset[str], frozenset[str]]  # of source and target


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Context for judging training text: the held-out sentences, and the scripts of each language."""

    held_out: HeldOut
    usable: dict[tuple[str, str], Mask]  # by direction and split: pairs that are readable and not empty
    scripts: dict[str, frozenset[str]]
    samples: dict[tuple[str, Split], Sample]  # by direction and split


def read_surroundings(config: Config) -> Surroundings:
    """Read all validation and test sets, and the beginning of each training corpus."""
    held_out = HeldOut()
    usable: dict[tuple[str, str], list[Mask]] = {}
    characters: dict[str, Counter[str]] = {}
    samples: dict[tuple[str, Split], Sample] = {}
    texts = [label for direction in config.data.corpora for label in _known(config, direction)]
    size = sum(min(size_on_disk(files), SAMPLE_BYTES if split == "train" else sys.maxsize) for _, split, files in texts)
    processes = processes_for(size, config.store.threads)
    with closing(each(excerpt, _excerpts(config, texts), processes)) as results:
        for (direction, split, files), group in groupby(results, itemgetter(0)):
            pairs: list[Pair] = []
            of_sides: tuple[Counter[str], Counter[str]] = Counter(), Counter()
            for _, found in group:
                for side, language in enumerate((direction.src, direction.tgt)):
                    if found.keys is not None:
                        held_out.add(language, found.keys[side])
                    if found.characters is not None:
                        characters.setdefault(language, Counter()).update(found.characters[side])
                        of_sides[side].update(found.characters[side])
                pairs += found.pairs
                usable.setdefault((direction.name, split), []).append(found.usable)
            if split != "train":
                of_sides = (
                    Counter("".join(source for source, _ in pairs)),
                    Counter("".join(target for _, target in pairs)),
                )
            source, target = map(main_scripts, of_sides)
            samples[direction.name, split] = Sample(_spread(pairs), (source, target))
            if split != "train" and not any(map(np.any, usable[direction.name, split])):
                raise CorpusError(f"{files[0][0]}: empty; remove `{split}` from the configuration if there is none")
    masks = {(name, split): np.concatenate(parts) for (name, split), parts in usable.items() if split != "train"}
    scripts = {language: main_scripts(counts) for language, counts in characters.items()}
    return Surroundings(held_out, masks, scripts, samples)


def _spread(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """At most `SAMPLE` of these pairs, from all parts of them."""
    places = np.unique(np.linspace(0, len(pairs) - 1, min(SAMPLE, len(pairs)), dtype=np.int64))
    return tuple(pairs[place] for place in places.tolist())


def _known(config: Config, direction: Direction) -> Iterator[Labelled]:
    """The files of a direction: held-out text, then training text."""
    for split in (*HELD_OUT_SPLITS, "train"):
        if (files := config.data.files(direction, split)) is not None:
            yield direction, split, files


def _excerpts(config: Config, texts: Iterable[Labelled]) -> Iterator[tuple[Labelled, tuple[Block, bool, str | None]]]:
    """All held-out text, and the beginning of training text."""
    for label in texts:
        _, split, files = label
        for block in read_blocks(files):
            left = SCRIPT_SAMPLE - block.first if split == "train" else block.count
            yield label, (block.head(left), split != "train", advice(config, split))
            if block.count > left:
                break


def scan_training(
    config: Config, directions: Iterable[Direction], around: Surroundings, bars: Bars
) -> Iterator[tuple[Direction, Scan]]:
    """Apply the cleaning rules to every training pair of these directions."""
    texts = [(direction, training_files(config, direction)) for direction in directions]
    size, limits = sum(size_on_disk(files) for _, files in texts), limits_of(config)
    judge = Judge(around.held_out, around.scripts, limits, advice(config, "train"))
    with bars.task("reading", size) as advance:
        tasks = (
            (text, (block, (text[0].src, text[0].tgt))) for text in texts for block in read_blocks(text[1], advance)
        )
        with closing(each(judge, tasks, processes_for(size, config.store.threads))) as results:
            for (direction, files), group in groupby(results, itemgetter(0)):
                result = combine((judged for _, judged in group), limits.max_ratio)
                if len(result) == 0:
                    raise CorpusError(f"{files[0][0]}: empty; no training data for {direction.name}")
                yield direction, result


def training_files(config: Config, direction: Direction) -> Corpus:
    """Source and target of the training corpus, file by file."""
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


def advice(config: Config, split: Split) -> str | None:
    """What an error about a line that is not UTF-8 advises; None if the configuration says `drop`.

    In a test set it is always an error, because scores are comparable only on identical sets.
    """
    if split == "test":
        return "convert the file; test sets are never filtered"
    if config.data.invalid_utf8 == "drop":
        return None
    return "convert the file, or set data.invalid_utf8: drop"


def size_on_disk(corpus: Corpus) -> int:
    """Bytes to be read, for progress bars."""
    return sum(path.stat().st_size for path in paths_of(corpus))
