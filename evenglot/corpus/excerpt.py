"""What the survey of all text keeps of a block: its readable pairs, characters, or keys of held-out sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from evenglot.corpus.read import Block, Pair
from evenglot.corpus.sentence_keys import HeldOutKeys, Hits, keys_of

HELD_OUT_SAMPLE = 100  # pairs of a block of held-out text that an excerpt holds


@dataclass(frozen=True, eq=False)
class Excerpt:
    """What judging other text needs to know of a block of text; both sides."""

    usable: Hits  # pairs that are readable and not empty
    keys: tuple[HeldOutKeys, HeldOutKeys] | None  # of a validation or test set
    characters: tuple[dict[str, int], dict[str, int]] | None  # of training text, for its scripts
    pairs: tuple[Pair, ...] = ()  # that are usable; of held-out text, the first of them


def excerpt(task: tuple[Block, bool, str | None]) -> Excerpt:
    """Look at a block, of held-out text or not; with advice, text that is not UTF-8 is an error."""
    block, is_held_out, advice = task
    sources, targets, invalid = block.sentences()
    if invalid and advice is not None:
        raise block.invalid(invalid[0], advice)
    usable = np.fromiter((bool(pair[0] and pair[1]) for pair in zip(sources, targets, strict=True)), np.bool_)
    places = np.flatnonzero(usable).tolist()
    if is_held_out:
        first = tuple((sources[place], targets[place]) for place in places[:HELD_OUT_SAMPLE])
        return Excerpt(usable, (keys_of(sources), keys_of(targets)), None, first)
    pairs = tuple((sources[place], targets[place]) for place in places)
    return Excerpt(usable, None, (dict(Counter("".join(sources))), dict(Counter("".join(targets)))), pairs)
