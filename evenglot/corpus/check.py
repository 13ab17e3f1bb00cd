"""`evenglot check`: look at the data before anything is spent. Reads everything once, writes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenglot.balance import Balancer
from evenglot.balance.best_response import ChiSquareResponse, CVaRResponse
from evenglot.balance.loss_driven import LossDriven
from evenglot.config import Config
from evenglot.corpus.clean import REASONS, Scan
from evenglot.corpus.survey import Setting, read_setting, rules_of, scan_training
from evenglot.directions import Direction, group_of
from evenglot.progress import Bars

CHARACTERS_PER_PIECE = 4.0  # typical of vocabularies of 8k to 32k pieces; the store will know better
TOKENS_PER_SECOND = 4000  # of a tiny model on one CPU core, measured; a GPU does some fifty times as many
SMALL = 1000  # pairs below which a corpus is likely to be memorised


@dataclass(frozen=True)
class Row:
    """What is known of a direction before training."""

    direction: str
    pairs: int
    problems: dict[str, int]  # by reason, whether or not its rule is on
    removed: dict[str, int]  # by reason, for the rules that are on
    kept: int
    share: float
    passes: float  # over the corpus in the first epoch
    most_passes: float | None  # that the strategy can ever ask for in one epoch; None: no limit
    valid: int | None
    test: int | None
    scripts: dict[str, list[str]]
    source_tokens: int  # estimated
    target_tokens: int


@dataclass(frozen=True)
class Check:
    """Everything `evenglot check` has to say."""

    rows: list[Row]
    warnings: list[str]

    @property
    def epoch_tokens(self) -> int:
        """Estimated target tokens of one pass over the data."""
        return sum(row.target_tokens for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "epoch_tokens": self.epoch_tokens}


def check(config: Config, bars: Bars) -> Check:
    """Read all text that the configuration names, and judge it."""
    setting = read_setting(config)
    scans = {direction: scan_training(config, direction, setting, bars) for direction in config.data.directions}
    rules = rules_of(config)
    kept = {direction.name: int(scan.kept(rules).sum()) for direction, scan in scans.items()}
    balancer = config.balance.create(group_sizes(config, kept))
    rows = [_row(config, direction, scan, setting, kept, balancer) for direction, scan in scans.items()]
    return Check(rows, [warning for row in rows for warning in _warnings(row, rules)] + _overall(rows))


def group_sizes(config: Config, pairs: dict[str, int]) -> dict[str, int]:
    """Training pairs of each group, from those of each direction."""
    sizes: dict[str, int] = {}
    for direction in config.data.directions:
        group = group_of(direction, config.data.grouping)
        sizes[group] = sizes.get(group, 0) + pairs[direction.name]
    return sizes


def most_passes(balancer: Balancer, group: str) -> float | None:
    """How often in one epoch a strategy can show a group, were it far behind all others; None if it has no limit."""
    groups = balancer.groups
    position = groups.names.index(group)
    q = groups.vector(balancer.q, "q")
    if isinstance(balancer, LossDriven):
        if not isinstance(balancer.rule, ChiSquareResponse | CVaRResponse):
            return None
        behind = np.zeros_like(q)
        behind[position] = 1.0
        q = balancer.rule.respond(q, behind, balancer.caps.upper(groups, np.zeros_like(q), 0))
    elif balancer.needs_gradients is not None:
        return None
    return float(groups.sentence_shares(q)[position] * groups.sizes.sum() / groups.sizes[position])


def _row(
    config: Config, direction: Direction, scan: Scan, setting: Setting, kept: dict[str, int], balancer: Balancer
) -> Row:
    group = group_of(direction, config.data.grouping)
    size, total = kept[direction.name], sum(kept.values())
    group_size = balancer.groups.sizes[balancer.groups.names.index(group)]
    part = size / max(len(scan), 1)  # of the text, which tokens are estimated from
    return Row(
        direction=direction.name,
        pairs=len(scan),
        problems={reason: scan.count(reason) for reason in REASONS},
        removed=scan.removed(rules_of(config)),
        kept=size,
        share=size / total,
        passes=float(balancer.mixture.sample[group] * total / group_size) if group_size else 0.0,
        most_passes=most_passes(balancer, group) if group_size else 0.0,
        valid=setting.held_out_pairs.get((direction.name, "valid")),
        test=setting.held_out_pairs.get((direction.name, "test")),
        scripts={language: sorted(setting.scripts.get(language, ())) for language in (direction.src, direction.tgt)},
        source_tokens=round(part * (scan.characters[0] / CHARACTERS_PER_PIECE + len(scan))),
        target_tokens=round(part * (scan.characters[1] / CHARACTERS_PER_PIECE + len(scan))),
    )


def _warnings(row: Row, rules: list[str]) -> list[str]:
    """What a person should know of a direction, with what to do about it."""
    found = []

    def warn(text: str) -> None:
        found.append(f"{row.direction}: {text}")

    share = {reason: count / max(row.pairs, 1) for reason, count in row.problems.items()}
    if row.kept == 0:
        warn("cleaning leaves no pair; relax `clean`")
    if row.problems["leakage"] and "leakage" not in rules:
        warn(
            f"{row.problems['leakage']:,} training pairs share a sentence with a validation or test set; scores will "
            "flatter; set clean.leakage: true"
        )
    if share["duplicate"] > 0.05 and "duplicate" not in rules:
        warn(f"{share['duplicate']:.0%} of the pairs are repeated; consider clean.duplicates: true")
    if share["identical"] > 0.02 and "identical" not in rules:
        warn(f"{share['identical']:.0%} of the pairs are untranslated; consider clean.identical: true")
    if share["wrong_script"] > 0.02 and "wrong_script" not in rules:
        warn(f"{share['wrong_script']:.0%} of the pairs are in another script; consider clean.wrong_script: true")
    if share["ratio"] > 0.02 and "ratio" not in rules:
        warn(f"{share['ratio']:.0%} of the pairs are of very unequal length; consider clean.max_ratio: 3")
    for language, scripts in row.scripts.items():
        if len(scripts) > 1:
            warn(f"{language} is written in {' and '.join(scripts)}; is this one language?")
    if 0 < row.kept < SMALL and (row.most_passes is None or row.most_passes > 3):
        times = "without limit" if row.most_passes is None else f"up to {row.most_passes:.0f} times an epoch"
        warn(f"only {row.kept:,} pairs, shown {times}: likely to be memorised; consider balance.max_passes")
    if row.valid is None:
        warn("no validation set: early stopping and model choice will ignore it")
    return found


def _overall(rows: list[Row]) -> list[str]:
    sizes = [row.kept for row in rows if row.kept]
    if len(sizes) > 1 and max(sizes) > 1000 * min(sizes):
        factor = max(sizes) / min(sizes)
        return [f"the largest corpus is {factor:,.0f} times the smallest; no mixture alone bridges that"]
    return []
