"""Tables about the course of training: validation results, and the losses behind the mixtures of chi-IBR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from evenglot.runs.events import BalanceEvent, of_kind
from evenglot.runs.history import History, history
from evenglot.runs.log import read_log
from evenglot.scoring.metrics import Numbers
from experiments.kept import runs_of, strategies_of
from experiments.wording import Table, language, signed

LENGTHS = {"related": (1000, 2000, 3000), "related-long": (3000, 6000, 9000), "diverse": (2000, 4000, 6000)}
MEANS_OF_BATCHES = "chi-R5-ema"  # a strategy that uses means of batches, with enough intervals


def lengths(folder: Path, direction: str) -> Table:
    """Validation loss per character and chrF of greedy translations during training; smaller / larger corpora."""
    lengths = LENGTHS[folder.name]
    heading = ["", "seeds", *(f"loss at {at:,}" for at in lengths), *(f"chrF at {at:,}" for at in lengths)]
    rows = []
    for strategy in strategies_of(folder, direction):
        told = [history(read_log(run.log_file)) for run in runs_of(folder, direction, strategy)]
        cells = [strategy, str(len(told))]
        for digits, halves in ((3, _losses_at), (1, _chrf_at)):
            for at in lengths:
                pairs = [both for each in told if (both := halves(each, at)) is not None]
                means = [fmean(half) for half in zip(*pairs, strict=True)]
                cells.append(" / ".join(f"{mean:.{digits}f}" for mean in means) if pairs else "–")
        rows.append(cells)
    return heading, rows


def noise(folder: Path, direction: str) -> Table:
    """The fraction of noise in the excess losses that chi-IBR responds to, in the second half of the intervals.

    The noise variance of an excess loss is estimated from second differences over the intervals: their mean square,
    divided by six, because a second difference has six times the variance of one value. It is compared to the variance
    over languages (weighted by p), which determines the best response.
    """
    heading = [
        "",
        "seeds",
        "intervals",
        "noise, smaller four",
        "larger four",
        "noise in what q answers",
        "q / p, smaller four",
        "nearest temperature",
        "off by",
    ]
    rows = []
    for strategy in strategies_of(folder, direction):
        told = [history(read_log(run.log_file)) for run in runs_of(folder, direction, strategy)]
        told = [each for each in told if _answers_training_losses(each) and len(each.running_losses.steps) > 8]
        if told:
            means = np.mean([_noise_of(each) for each in told], axis=0)
            cells = [
                f"{means[0]:.0f}",
                f"{means[1]:.2f}",
                f"{means[2]:.2f}",
                f"{100 * means[3]:.0f} %",
                f"{means[4]:.2f}",
                f"{means[5]:.1f}",
                f"{100 * means[6]:.1f} %",
            ]
            rows.append([strategy, str(len(told)), *cells])
    return heading, rows


def _answers_training_losses(told: History) -> bool:
    """Only chi-IBR with training losses and the data as centre: validation losses and other centres differ in noise."""
    balance = told.about.config["balance"]
    return bool(balance["strategy"] == "chi-ibr" and balance["signal"] == "train" and balance["center"] == "data")


def _noise_of(told: History) -> list[float]:
    """The cells of a row: number of intervals; noise of the smaller and of the larger corpora; its fraction of the
    variance; mean q / p of the smaller corpora; the temperature whose mixture is nearest to the mean mixture; and the
    total variation distance of the two.
    """
    names = told.names
    losses = np.array([told.running_losses.values[name] for name in names], dtype=float)
    excess = losses - np.array([[told.baseline.get(name, 0.0)] for name in names])
    excess = excess[:, excess.shape[1] // 2 :]
    p = np.array([told.p[name] for name in names])
    noise = (np.diff(excess, 2) ** 2).mean(axis=1) / 6
    answered = (p[:, None] * (excess - p @ excess) ** 2).sum(axis=0).mean()
    shares = np.array([told.mixture.values[name] for name in names], dtype=float)
    half = len(names) // 2
    late = shares[:, shares.shape[1] // 2 :].mean(axis=1)
    deviation = np.sqrt(noise)
    part = (p * (1 - p) * noise).sum() / answered
    ratio = (late / p)[half:].mean()
    return [
        losses.shape[1],
        deviation[half:].mean(),
        deviation[:half].mean(),
        part,
        ratio,
        *_nearest_temperature(p, late),
    ]


def _nearest_temperature(p: Numbers, mixture: Numbers) -> tuple[float, float]:
    """The temperature whose mixture is nearest, and its total variation distance."""
    taus = 1 / np.linspace(1, 0.01, 991)
    mixtures = p ** (1 / taus[:, None])
    mixtures /= mixtures.sum(axis=1, keepdims=True)
    off = np.abs(mixtures - mixture).sum(axis=1) / 2
    return float(taus[off.argmin()]), float(off.min())


def bias(folder: Path, direction: str) -> Table:
    """Running mean of batch means minus mean of the interval, after the first third of a run."""
    differences = []
    for run in runs_of(folder, direction, MEANS_OF_BATCHES):
        responses = of_kind(read_log(run.log_file), BalanceEvent)
        for event in responses[len(responses) // 3 :]:
            losses = {name: (event.losses[name], event.interval_losses[name]) for name in event.target}
            differences.append({name: a - b for name, (a, b) in losses.items() if a is not None and b is not None})
    names = list(differences[0])
    columns = [np.array([each[name] for each in differences]) for name in names]
    found = [f"{signed(column.mean(), 2)} ± {column.std(ddof=1) / len(column) ** 0.5:.2f}" for column in columns]
    return ["", *(language(name) for name in names)], [[MEANS_OF_BATCHES, *found]]


def _losses_at(told: History, at: int) -> tuple[float, float] | None:
    return _halves(told.valid_losses_per_character.steps, told.valid_losses_per_character.values, at)


def _chrf_at(told: History, at: int) -> tuple[float, float] | None:
    return _halves(told.chrf.steps, told.chrf.values, at)


def _halves(steps: Sequence[int], values: Mapping[str, Sequence[float | None]], at: int) -> tuple[float, float] | None:
    """Means over the smaller and over the larger corpora after `at` updates; None if values are missing."""
    if at not in steps:
        return None
    found = [value for each in values.values() if (value := each[steps.index(at)]) is not None]  # largest corpus first
    if len(found) < len(values):
        return None
    half = len(found) // 2
    return fmean(found[half:]), fmean(found[:half])
