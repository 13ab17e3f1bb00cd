"""The parts of a store, which are splits of directions: encoded text, as artefacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from evenglot.config import Config
from evenglot.config.data_fields import Split
from evenglot.corpus import artefacts, bundle
from evenglot.corpus.artefacts import key_of
from evenglot.corpus.clean import Scan
from evenglot.corpus.encode import Encoded, Encoder, PieceLimits, Request, ShortLengths
from evenglot.corpus.identity import digest_of, identity
from evenglot.corpus.read import CorpusError, changed, read_blocks
from evenglot.corpus.survey import Mask, Surroundings, advice, rules_of, size_on_disk, training_files
from evenglot.corpus.tokenizers import Tokenizers, open_tokenizers
from evenglot.corpus.workers import each, processes_for
from evenglot.directions import SIDES, Direction
from evenglot.progress import Advance, Bars
from evenglot.seeding import generator
from evenglot.text_file import Corpus

IDS = ("source.ids", "target.ids", "offsets")
BUNDLES = {"train": IDS, "held_out": (*IDS, "source.txt", "target.txt")}  # their files


@dataclass(frozen=True, eq=False)
class Part:
    """A split of a direction to be encoded: from which files, which of their pairs, and the limits of segmentation."""

    name: str
    direction: Direction
    split: Split
    files: Corpus
    chosen: Mask | None  # None: all
    limits: PieceLimits
    removed: dict[str, int]

    @property
    def bundle(self) -> str:
        """The bundle that it is stored in."""
        return "train" if self.split == "train" else "held_out"

    def key(self, vocabulary: Path) -> str:
        """The hash of all that its content depends on."""
        selection = None if self.chosen is None else digest_of(self.chosen)
        limits = [self.limits.shortest, str(self.limits.longest), str(self.limits.ratio)]
        tags = filter(None, [self.direction.corpus_tag])
        return key_of(identity(self.files), selection, limits, vocabulary.name, self.direction.name, self.name, *tags)


def parts_of(config: Config, direction: Direction, scan: Scan, around: Surroundings) -> Iterator[Part]:
    """Training pairs cleaned; validation pairs capped, and all that are not empty; the test set whole."""
    clean, rules = config.clean, rules_of(config)
    ratio = clean.max_piece_ratio or float("inf")
    limits = PieceLimits(clean.min_pieces, clean.max_pieces, ratio)
    train = training_files(config, direction)
    yield Part("train", direction, "train", train, scan.kept(rules), limits, scan.removed(rules))
    if (valid := config.data.files(direction, "valid")) is not None:
        usable = around.usable[direction.name, "valid"]
        empty = {"empty": int(np.count_nonzero(~usable))}
        short = PieceLimits(longest=clean.max_pieces)
        yield Part("valid", direction, "valid", valid, _capped(usable, config, direction), short, {})
        yield Part("valid_full", direction, "valid", valid, usable, PieceLimits(), empty)
    if (test := config.data.files(direction, "test")) is not None:
        yield Part("test", direction, "test", test, None, PieceLimits(), {})


def _capped(usable: Mask, config: Config, direction: Direction) -> Mask:
    """A random choice of the usable validation pairs, the same whenever it is made; all of them if they are few."""
    cap = config.store.valid_cap
    if cap is None or np.count_nonzero(usable) <= cap:
        return usable
    chosen = np.zeros_like(usable)
    draw = generator(config.store.seed, "valid_cap", direction.name)
    chosen[draw.choice(np.flatnonzero(usable), cap, replace=False)] = True
    return chosen


def make_parts(
    config: Config, root: Path, name: str, parts: list[Part], vocabulary: Path, bars: Bars
) -> tuple[Path, list[bundle.Entry]]:
    """Token ids of some parts, as an artefact."""
    keys = [part.key(vocabulary) for part in parts]

    def build(missing: list[int]) -> Generator[bundle.Write, None, None]:
        wanted = [parts[position] for position in missing]
        size = sum(size_on_disk(part.files) for part in wanted)
        processes = processes_for(size, config.store.threads)
        with bars.task(f"encoding {name.replace('_', '-')} text", size) as advance:
            tokenizers = open_tokenizers(vocabulary, config.data)
            dtypes = artefacts.about(vocabulary)["dtype"]
            encoder = Encoder(tokenizers, (dtypes["source"], dtypes["target"]))
            requests = _requests(config, wanted, tokenizers, advance)
            with closing(each(encoder, requests, processes)) as results:
                for part, group in groupby(results, itemgetter(0)):
                    yield partial(_write, part, (encoded for _, encoded in group))

    return bundle.make(root, name, keys, BUNDLES[name], build)


def _requests(
    config: Config, parts: Iterable[Part], tokenizers: Tokenizers, advance: Advance
) -> Iterator[tuple[Part, Request]]:
    """All blocks of these parts; an error if the text changed length since it was scanned."""
    for part in parts:
        what = (part.limits, tokenizers.frames(part.direction), part.split != "train", advice(config, part.split))
        pairs = 0
        for block in read_blocks(part.files, advance):
            pairs += block.count
            chosen = None if part.chosen is None else part.chosen[block.first : pairs]
            if chosen is not None and len(chosen) < block.count:
                raise changed(part.files[0][0])
            yield part, Request(block, chosen, *what)
        if part.chosen is not None and pairs < len(part.chosen):
            raise changed(part.files[0][0])


def _write(part: Part, blocks: Iterable[Encoded], writer: bundle.PartWriter) -> dict[str, Any]:
    """Write the ids, offsets and text of a part; what the manifest says about it."""
    lengths: list[tuple[ShortLengths, ShortLengths]] = []
    removed: Counter[str] = Counter()
    for block in blocks:
        lengths.append(block.lengths)
        removed.update(block.removed)
        for number, side in enumerate(SIDES):
            writer.append(f"{side}.ids", block.ids[number])
            if block.text is not None:
                writer.append(f"{side}.txt", block.text[number])
    tokens = {}
    for number, side in enumerate(SIDES):
        sides = (np.zeros(1, dtype=np.int32), *(each[number] for each in lengths))
        offsets = np.cumsum(np.concatenate(sides), dtype=np.int64)
        writer.append(f"{side}.offsets", offsets.tobytes(), "offsets")
        tokens[f"{side}_tokens"] = int(offsets[-1])
    pairs = sum(len(each[0]) for each in lengths)
    if pairs == 0:
        raise CorpusError(f"{part.files[0][0]}: no pair is left of {part.name}; relax `clean`")
    return {"pairs": pairs, **tokens, "removed": dict(removed)}
