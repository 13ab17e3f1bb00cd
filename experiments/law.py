"""A law of effective data, fitted to the stored runs: which mixtures does it predict to have little regret?

    python -m experiments.law

Repeating a corpus is worth less each time (Muennighoff et al. 2023), and languages help each other. After R_i passes
over its U_i sentence pairs, language i has as good as

    X_i = V_i + transfer * sum_j V_j,        V_i = U_i * repeats * (1 - exp(-R_i / repeats))

pairs, and its score is a_i + b log X_i. Levels a_i are free in every setting (corpus, direction, length), so only
differences between mixtures count. `repeats` and `transfer` are averaged over a grid, weighted by likelihood: few runs
leave both uncertain. The order of the data is not in the law: a fading mixture counts as its average.

This is a screening of candidates; experiments/regret.py measures regret.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenglot.balance import create
from experiments.kept import HERE, runs_of, strategies_of
from experiments.regret import RESULTS, load, sizes_of

Array = NDArray[np.float64]
Passes = Mapping[str, float]
Scores = Mapping[str, Mapping[str, float]]

REPEATS = (3, 5, 8, 11, 15, 20, 30, 50, 100)
TRANSFERS = (0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
NOISE = {"chrf": 1.2, "loss": 0.013}  # of a language in a run: chrF++ points, and log loss per character
DEPENDENCE = 3  # languages of a run err together: it counts as a third of as many observations
UPDATES_WEIGHTS = ("group", "pd", "fastdro", "multidds", "step", "paper")  # rows that differ in more than the mixture

FIXED = {f"tau {tau:g}": ("temperature", {"tau": tau}) for tau in (1, 1.5, 2, 3, 5, 100)} | {
    f"mix {alpha:g}": ("mix", {"alpha": alpha}) for alpha in (0.25, 0.5, 0.75)
}
FADING = {
    f"mix {alpha:g}, fade {fade:g}": ("fade", {"start": f"mix:{alpha:g}", "passes": fade})
    for alpha, fade in ((0.5, 15), (0.5, 30), (0.75, 8), (0.75, 15), (1, 8), (1, 15))
}


@dataclass(frozen=True)
class Setting:
    """Runs on one corpus in one direction, of one length; arrays have a row for each run."""

    name: str
    languages: tuple[str, ...]
    sizes: Array
    passes: Array
    chrf: Array
    loss: Array

    @property
    def length(self) -> float:
        """Passes over all data."""
        return float(np.mean(self.passes @ self.sizes / self.sizes.sum()))


@dataclass(frozen=True)
class Fit:
    """Weighted laws of a measure: (weight, repeats, transfer, slope, mean log X, mean score)."""

    laws: tuple[tuple[float, float, float, float, Array, Array], ...]

    def predict(self, passes: Array, sizes: Array) -> Array:
        """The score of every language."""
        parts = [
            weight * (level + slope * (log_data(passes, sizes, repeats, transfer) - centre))
            for weight, repeats, transfer, slope, centre, level in self.laws
        ]
        return np.asarray(np.sum(parts, axis=0))

    def constants(self) -> tuple[float, float]:
        """Geometric mean of `repeats` and mean of `transfer`."""
        weights, repeats, transfers = np.array([law[:3] for law in self.laws]).T
        return float(np.exp(weights @ np.log(repeats))), float(weights @ transfers)


def log_data(passes: Array, sizes: Array, repeats: float, transfer: float) -> Array:
    """log X."""
    own = sizes * repeats * -np.expm1(-passes / repeats)
    return np.asarray(np.log(own + transfer * own.sum(axis=-1, keepdims=True)))


def fit(setting: Setting, score: Array, noise: float) -> Fit:
    """Fit the law to the scores of all runs and languages."""
    found = []
    level = score.mean(0)
    y = score - level
    for repeats in REPEATS:
        for transfer in TRANSFERS:
            data = log_data(setting.passes, setting.sizes, repeats, transfer)
            centre = data.mean(0)
            x = data - centre
            slope = (x * y).sum() / (x * x).sum()
            found.append((((y - slope * x) ** 2).sum(), repeats, transfer, slope, centre, level))
    least = min(error for error, *_ in found)
    variance = max(noise**2, least / y.size)
    weights = np.array([np.exp((least - error) / (2 * variance * DEPENDENCE)) for error, *_ in found])
    weights /= weights.sum()
    return Fit(tuple((float(weight), *law[1:]) for weight, law in zip(weights, found, strict=True) if weight > 1e-4))


# -------------------------------------------------------------------------------------------------------- stored runs


def settings() -> Iterator[Setting]:
    """The settings of which there are runs with several mixtures."""
    for folder, direction in (("related", "any-en"), ("related", "en-any"), ("related-long", "any-en")):
        yield _from_logs(HERE / folder, direction)
    yield _from_logs(HERE / "diverse", "any-en")
    for path in sorted(RESULTS.iterdir()):
        if len(load(path.name)) > 2:
            yield _from_results(path.name)


def _from_logs(folder: Path, direction: str) -> Setting:
    rows = []
    for strategy in strategies_of(folder, direction):
        if any(part in strategy for part in UPDATES_WEIGHTS):
            continue
        for run in runs_of(folder, direction, strategy):
            scores = json.loads((run.folder / "scores.json").read_text(encoding="utf-8"))["directions"]
            lines = (run.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
            events = [json.loads(line) for line in lines]
            last = [event for event in events if event["event"] == "balance"][-1]
            whole = events[-1]["step"] / last["step"]  # the last interval may be cut short
            rows.append(({name: passes * whole for name, passes in last["passes"].items()}, scores))
    return _setting(f"{folder.name} {direction}", sizes_of(events), rows)


def _from_results(name: str) -> Setting:
    runs = [run for seeds in load(name).values() for run in seeds.values()]
    return _setting(name, runs[0]["sizes"], [(run["passes"], run["directions"]) for run in runs])


def _setting(name: str, sizes: Mapping[str, float], rows: Sequence[tuple[Passes, Scores]]) -> Setting:
    languages = tuple(sorted(sizes, key=lambda each: -sizes[each]))
    return Setting(
        name,
        languages,
        np.array([sizes[each] for each in languages]),
        np.array([[passes[each] for each in languages] for passes, _ in rows]),
        np.array([[scores[each]["chrf"] for each in languages] for _, scores in rows]),
        np.array([[scores[each]["loss_per_character"] for each in languages] for _, scores in rows]),
    )


# ------------------------------------------------------------------------------------------------------------- regret


def exposure(setting: Setting, strategy: str, options: Mapping[str, Any], intervals: int = 100) -> Array:
    """Passes over each corpus at the end of a run with this strategy."""
    sizes = dict(zip(setting.languages, setting.sizes, strict=True))
    balancer = create(strategy, sizes, **options)
    passes = np.zeros(len(sizes))
    pairs = setting.length * setting.sizes.sum() / intervals
    for _ in range(intervals):
        drawn = {name: share * pairs for name, share in balancer.mixture.sample.items()}
        passes += np.array([drawn[name] for name in setting.languages]) / setting.sizes
        balancer.update(drawn)
    return passes


def measures(chrf: Array, log_loss: Array) -> Array:
    """Mean chrF++, its three worst languages, and minus the mean log loss in percent."""
    return np.array([chrf.mean(), np.sort(chrf)[:3].mean(), -100 * log_loss.mean()])


def main() -> None:
    """Print the constants and the predicted regret of fixed and fading mixtures."""
    for setting in settings():
        chrf = fit(setting, setting.chrf, NOISE["chrf"])
        loss = fit(setting, np.log(setting.loss), NOISE["loss"])
        print(f"{setting.name}: {len(setting.passes)} runs of {setting.length:.1f} passes")
        for name, law in (("chrF++", chrf), ("loss", loss)):
            print("  {}: repeats {:.0f}, transfer {:.2f}".format(name, *law.constants()))
        predicted = {}
        for row, (strategy, options) in (FIXED | FADING).items():
            passes = exposure(setting, strategy, options)
            predicted[row] = measures(chrf.predict(passes, setting.sizes), loss.predict(passes, setting.sizes))
        best = np.max([predicted[row] for row in FIXED], axis=0)
        for row, values in predicted.items():
            print("  {:20} chrF++ {:+5.2f}   three worst {:+5.2f}   loss {:+5.1f} %".format(row, *(best - values)))


if __name__ == "__main__":
    main()
