"""`evenglot check`: check the raw data before training. Reads all text once, writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenglot.balance import Balancer, passes_of_run
from evenglot.batches.draw import interval_counts, released_interval_counts
from evenglot.config import Config
from evenglot.config.doubts import doubts_about, estimated_length, interval_pairs
from evenglot.corpus.clean import REASONS, Scan
from evenglot.corpus.read import Pair
from evenglot.corpus.survey import Surroundings, read_surroundings, rules_of, scan_training
from evenglot.directions import whole_direction
from evenglot.preview.sides import doubts_about_sides
from evenglot.progress import Bars
from evenglot.robust.validate import Vector
from evenglot.wording import counted, some

CHARACTERS_PER_PIECE = 4.0  # typical of vocabularies of 8k to 32k subwords; the store has exact counts
TOKENS_PER_SECOND = 4000  # measured for a tiny model on one CPU core; a GPU is about fifty times faster
EXAMPLES = 2  # pairs of each corpus to show
SMALL = 1000  # number of pairs below which a corpus is likely to be memorised


@dataclass(frozen=True)
class Row:
    """Facts about one direction."""

    direction: str
    pairs: int
    problems: dict[str, int]  # by rule, whether or not it is enabled
    removed: dict[str, int]  # by rule, for enabled rules
    kept: int
    share: float
    passes: float  # over the corpus in the first interval
    most_passes: float | None  # upper bound for any interval; None: no bound
    valid: int | None
    test: int | None
    scripts: dict[str, list[str]]
    examples: list[Pair]
    source_tokens: int  # estimated
    target_tokens: int  # estimated
    shifted: tuple[int, int] | None  # pairs, from and to, in which the sides are probably shifted by a line


@dataclass(frozen=True)
class Check:
    """The result of `evenglot check`."""

    rows: list[Row]
    rules: list[str]  # enabled rules
    warnings: list[str]

    @property
    def epoch_tokens(self) -> int:
        """Estimated number of target tokens in one pass over the data."""
        return sum(row.target_tokens for row in self.rows)

    @property
    def epoch_seconds(self) -> float:
        """Estimated time of one pass over the data with a tiny model on one CPU core."""
        return self.epoch_tokens / TOKENS_PER_SECOND

    def as_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {**asdict(self), "epoch_tokens": self.epoch_tokens, "epoch_seconds": self.epoch_seconds}


def check(config: Config, bars: Bars) -> Check:
    """Read and check all text of the configuration."""
    around = read_surroundings(config)
    scans = {d.name: scan for d, scan in scan_training(config, config.data.corpora, around, bars)}
    rules = rules_of(config)
    kept = {name: int(scan.kept(rules).sum()) for name, scan in scans.items()}
    tokens = {name: _estimate_tokens(scan, kept[name]) for name, scan in scans.items()}
    by_group = _passes(config, kept, tokens)
    passes = config.data.groups.spread(by_group)
    rows = []
    for direction in config.data.corpora:
        name, scan = direction.name, scans[direction.name]
        row = Row(
            direction=name,
            pairs=len(scan),
            problems={reason: scan.count(reason) for reason in REASONS},
            removed=scan.removed(rules),
            kept=kept[name],
            share=kept[name] / max(sum(kept.values()), 1),
            passes=passes[name][0],
            most_passes=passes[name][1],
            valid=_held_out(around, name, "valid"),
            test=_held_out(around, name, "test"),
            scripts={code: sorted(around.scripts.get(code, ())) for code in (direction.src, direction.tgt)},
            examples=_examples(around, name),
            source_tokens=tokens[name][0],
            target_tokens=tokens[name][1],
            shifted=scan.shifted,
        )
        rows.append(row)
    of_sides = doubts_about_sides(config.data.corpora, around.samples)
    warnings = [
        warning
        for row in rows
        for warning in (
            *(f"{row.direction}: {doubt}" for doubt in of_sides.get(row.direction, ())),
            *_warnings(row, rules, config, bool(of_sides.get(row.direction))),
        )
    ]
    return Check(rows, rules, [*warnings, *_overall(rows), *_of_training(rows, config)])


def _examples(around: Surroundings, name: str) -> list[Pair]:
    """Some pairs from the beginning of a corpus, not the first ones, which are often headings."""
    pairs = around.samples[name, "train"].pairs
    return [pairs[len(pairs) * part // (EXAMPLES + 1)] for part in range(1, min(EXAMPLES, len(pairs)) + 1)]


def _held_out(around: Surroundings, name: str, split: str) -> int | None:
    """Number of pairs of a validation or test set after preparation; test sets keep pairs with an empty side."""
    usable = around.usable.get((name, split))
    if usable is None:
        return None
    return len(usable) if split == "test" else int(np.count_nonzero(usable))


def _estimate_tokens(scan: Scan, kept: int) -> tuple[int, int]:
    """Estimated source and target tokens of the kept pairs, from the characters of all pairs."""
    part = kept / max(len(scan), 1)
    source, target = (round(part * (count / CHARACTERS_PER_PIECE + len(scan))) for count in scan.characters)
    return source, target


def _passes(
    config: Config, kept: dict[str, int], tokens: dict[str, tuple[int, int]]
) -> dict[str, tuple[float, float | None]]:
    """Per group: passes over its corpora in the first interval, and the upper bound for any interval."""
    sizes = config.data.groups.sum(kept)
    if not any(sizes.values()):
        return dict.fromkeys(sizes, (0.0, 0.0))
    balancer = _balancer(config, kept, {name: target for name, (_, target) in tokens.items()})
    sample = balancer.groups.vector(balancer.mixture.sample, "sample")
    draw = {**config.draw_options, "pairs": interval_pairs(config, kept, tokens)}
    first = passes_over(balancer, sample, draw)
    most = {group: most_passes(balancer, group, draw) for group in sizes}
    return {group: (first[group], most[group]) for group in sizes}


def _balancer(config: Config, kept: Mapping[str, int], tokens: Mapping[str, int]) -> Balancer:
    sizes, group_tokens = (config.data.groups.sum(each) for each in (kept, tokens))
    return config.balancer(sizes, group_tokens, config.balance.without_baseline_file())


def passes_over(balancer: Balancer, sample: Vector, draw: Mapping[str, Any]) -> dict[str, float]:
    """Passes over each group in an interval sampled with these shares of sentence pairs."""
    sizes = balancer.groups.sizes
    if draw["rule"] == "released":
        counts, left_over = released_interval_counts(sizes, sample, draw["max_scale_up"])
        pairs = counts + left_over * sample
    else:
        pairs = interval_counts(sizes, sample, draw["pairs"]).astype(np.float64)
    return balancer.groups.keyed(np.divide(pairs, sizes, out=np.zeros_like(sizes), where=sizes > 0))


def most_passes(balancer: Balancer, group: str, draw: Mapping[str, Any]) -> float | None:
    """Upper bound on the passes over a group in an interval; None if the strategy sets no limit."""
    extremes = balancer.extremes(group)
    if extremes is None:
        return None
    shares = map(balancer.groups.sentence_shares, extremes)
    return max(passes_over(balancer, sample, draw)[group] for sample in shares)


def _warnings(row: Row, rules: list[str], config: Config, in_other_languages: bool) -> list[str]:
    """Warnings about a direction, with advice. Pairs in another script are none where a whole side is in doubt."""
    found = []

    def warn(text: str) -> None:
        found.append(f"{row.direction}: {text}")

    share = {reason: count / max(row.pairs, 1) for reason, count in row.problems.items()}
    of_pairs = {reason: f"{100 * part:.0f} % of the pairs" for reason, part in share.items()}
    if row.kept == 0:
        warn("cleaning leaves no pair; relax `clean`")
    if row.problems["leakage"] and "leakage" not in rules:
        warn(
            f"{row.problems['leakage']:,} training pairs share a sentence with a validation or test set, which "
            "inflates the scores; set clean.leakage: true"
        )
    if share["duplicate"] > 0.05 and "duplicate" not in rules:
        warn(f"{of_pairs['duplicate']} are repeated; consider clean.duplicates: true")
    if share["identical"] > 0.02 and "identical" not in rules:
        warn(f"{of_pairs['identical']} have identical sides; consider clean.identical: true")
    if share["wrong_script"] > 0.02 and "wrong_script" not in rules and not in_other_languages:
        warn(f"{of_pairs['wrong_script']} are in another script; consider clean.wrong_script: true")
    if row.shifted is not None:
        first, end = row.shifted
        warn(
            f"source and target are probably shifted by a line between pairs {first + 1:,} and {end:,}, judged by "
            "their lengths; restore the missing lines, or remove those without a translation"
        )
    elif share["ratio"] > 0.02 and "ratio" not in rules:
        warn(f"{of_pairs['ratio']} have an unusual length ratio; consider clean.max_ratio: 3")
    limits_itself = config.balance.description.gradual
    if 0 < row.kept < SMALL and not limits_itself and (row.most_passes is None or row.most_passes > 3):
        times = "without limit" if row.most_passes is None else f"up to {row.most_passes:.0f} times per interval"
        advice = "balance.max_passes" if "max_passes" in config.balance.options else "a smaller tau or UniMax"
        warn(f"only {counted(row.kept, 'pair')}, sampled {times}: likely to be memorised; consider {advice}")
    return found


def _overall(rows: list[Row]) -> list[str]:
    """Warnings about all directions together."""
    found = []
    whole = [row for row in rows if row.direction == whole_direction(row.direction)]
    if without := [row.direction for row in whole if row.valid is None]:
        consequence = "not considered in early stopping and checkpoint selection"
        if len(without) == len(whole):
            consequence = "the last checkpoint counts as the best one, and overfitting is not noticed; set data.valid"
        found.append(f"{some(without)}: no validation set: {consequence}")
    sizes = [row.kept for row in rows if row.kept]
    if len(sizes) > 1 and max(sizes) > 1000 * min(sizes):
        factor = max(sizes) / min(sizes)
        found.append(
            f"the largest corpus is {factor:,.0f} times as large as the smallest; balancing alone cannot fix that"
        )
    return found


def _of_training(rows: list[Row], config: Config) -> list[str]:
    """What `evenglot train` will warn of, by the estimated length of an interval."""
    kept = {row.direction: row.kept for row in rows}
    if not any(kept.values()):
        return []
    tokens = {row.direction: (row.source_tokens, row.target_tokens) for row in rows}
    balancer = _balancer(config, kept, {row.direction: row.target_tokens for row in rows})
    length = estimated_length(config, kept, tokens)
    has_validation = any(row.valid is not None for row in rows)
    doubts = [message for _, message in doubts_about(config, balancer, length, has_validation)]
    intervals = length.updates / length.interval_updates
    passes = {row.direction: row.passes * intervals for row in rows}
    if (planned := passes_of_run(balancer, length.interval_pairs * intervals, intervals)) is not None:
        passes = config.data.groups.spread(planned)
    return [*doubts, *_many_passes(passes, config.train.warn_passes)]


def _many_passes(passes: Mapping[str, float], limit: float) -> list[str]:
    """Corpora that the run would repeat more often than `train.warn_passes`, unless the mixture follows losses."""
    often = {name: times for name, times in passes.items() if times > limit}
    if not often:
        return []
    return [
        f"{some(often)}: sampled up to {max(often.values()):,.0f} times in this run, more than train.warn_passes = "
        f"{limit:g}; train for fewer updates, or expect the text to be memorised"
    ]
