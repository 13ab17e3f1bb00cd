"""Regret: how far a strategy is from the best fixed mixture of a setting, chosen in hindsight.

    python -m experiments.regret keep SETTING ROW RUN ...    # store the numbers of finished runs in default/results/
    python -m experiments.regret                             # print the table

A setting is a corpus, a direction and a number of passes. The best fixed mixture is chosen on other seeds than the one
that it is judged on (cross-fitting): the best of several noisy rows, judged on the same runs, would look better than it
is. Regret of a seed = best fixed mixture (chosen on the others) - strategy; its mean over seeds has a t interval from
the noise that is left after row and seed effects, pooled over all rows of the setting.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t  # type: ignore[import-untyped]

RESULTS = Path(__file__).parent / "default" / "results"
POINTS = 20  # of a course that are stored


@dataclass(frozen=True)
class Measure:
    """A number of a run; `sign` is 1 if larger is better."""

    name: str
    of: Callable[[Mapping[str, Mapping[str, float]]], float]
    sign: int = 1


def _values(directions: Mapping[str, Mapping[str, float]], key: str) -> list[float]:
    return sorted(scores[key] for scores in directions.values())


MEASURES = (
    Measure("chrF++", lambda directions: float(np.mean(_values(directions, "chrf")))),
    Measure("chrF++, three worst", lambda directions: float(np.mean(_values(directions, "chrf")[:3]))),
    Measure("loss per character", lambda directions: float(np.mean(_values(directions, "loss_per_character"))), -1),
)


# ---------------------------------------------------------------------------------------------------------------- keep


def keep(setting: str, row: str, folder: Path) -> Path:
    """Store the scores, the validation losses and the mixtures of a finished run; returns the file."""
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    config = next(event["config"] for event in events if event["event"] == "config")
    content = {
        "balance": {key: value for key, value in config["balance"].items() if value is not None},
        "seed": config["seed"],
        "updates": max(event["step"] for event in events),
        "sizes": sizes_of(events),
        "passes": _rounded(next(event["passes"] for event in reversed(events) if event["event"] == "balance")),
        "best_step": next(event["best_step"] for event in reversed(events) if event["event"] == "done"),
        "directions": {
            name: {key: round(each[key], 4) for key in ("chrf", "bleu", "loss_per_character")}
            for name, each in scores["directions"].items()
        },
        "validation": [
            {"step": event["step"], "macro": round(event["macro"], 4), "loss": _rounded(event["loss"])}
            for event in thinned([event for event in events if event["event"] == "validation"])
        ],
        "mixture": [
            {"step": event["step"], "q": _rounded(event["mixture"])}
            for event in thinned([event for event in events if event["event"] == "interval"])
        ],
        "signature": scores["signature"],
    }
    file = RESULTS / setting / f"{row}-{config['seed']}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return file


def sizes_of(events: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Sentence pairs of every direction, from what the first interval drew and the passes that this made."""
    pairs = next(event["pairs"] for event in events if event["event"] == "interval")
    passes = next(event["passes"] for event in events if event["event"] == "balance")
    return {name: round(pairs[name] / passes[name]) for name in pairs}


def thinned(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `POINTS` of them, evenly spaced, the first and the last included."""
    if len(events) <= POINTS:
        return list(events)
    return [events[k] for k in np.linspace(0, len(events) - 1, POINTS).round().astype(int)]


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


# -------------------------------------------------------------------------------------------------------------- regret


@dataclass(frozen=True)
class Regret:
    """The mean over seeds with its 95 % interval; positive: worse than the best fixed mixture."""

    mean: float
    half: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.half:.3f} ({self.seeds})"


def load(setting: str) -> dict[str, dict[int, dict[str, Any]]]:
    """The stored runs by row and seed."""
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for file in sorted((RESULTS / setting).glob("*.json")):
        row, _, seed = file.stem.rpartition("-")
        rows.setdefault(row, {})[int(seed)] = json.loads(file.read_text(encoding="utf-8"))
    return rows


def is_fixed(run: Mapping[str, Any]) -> bool:
    """Whether the mixture of the run was constant."""
    return len({json.dumps(each["q"], sort_keys=True) for each in run["mixture"]}) == 1


def noise(values: Mapping[str, Mapping[int, float]]) -> tuple[float, int]:
    """Standard deviation of a run, given its row and seed, and its degrees of freedom, from rows of several seeds."""
    cells = [(row, seed, value) for row, runs in values.items() if len(runs) > 1 for seed, value in runs.items()]
    if not cells:
        return float("nan"), 0
    rows, seeds = sorted({row for row, _, _ in cells}), sorted({seed for _, seed, _ in cells})
    design = np.zeros((len(cells), len(rows) + len(seeds) - 1))
    for k, (row, seed, _) in enumerate(cells):
        design[k, rows.index(row)] = 1
        if seed != seeds[0]:
            design[k, len(rows) + seeds.index(seed) - 1] = 1
    target = np.array([value for _, _, value in cells])
    fitted, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
    freedom = len(cells) - int(rank)
    return (
        (float(np.sqrt(((target - design @ fitted) ** 2).sum() / freedom)), freedom) if freedom else (float("nan"), 0)
    )


def regret(values: Mapping[str, Mapping[int, float]], fixed: Sequence[str], strategy: str) -> Regret:
    """Regret of a strategy, where `values` are larger if better; rows by seed."""
    differences = []
    for seed, own in values[strategy].items():
        rivals = {row: values[row] for row in fixed if seed in values[row]}
        means = {
            row: np.mean([value for other, value in runs.items() if other != seed])
            for row, runs in rivals.items()
            if len(runs) > 1
        }
        best = max(means, key=lambda row: means[row]) if means else max(rivals, key=lambda row: rivals[row][seed])
        differences.append(rivals[best][seed] - own)
    spread, freedom = noise(values)
    half = float(student_t.ppf(0.975, freedom) * spread * np.sqrt(2 / len(differences))) if freedom else float("nan")
    return Regret(float(np.mean(differences)), half, len(differences))


def table(setting: str) -> str:
    """All rows of a setting: their means, and regrets where there are fixed rows to compare with."""
    runs = load(setting)
    fixed = [row for row, seeds in runs.items() if all(is_fixed(run) for run in seeds.values())]
    lines = [f"{setting}"]
    for row, seeds in runs.items():
        cells = []
        for measure in MEASURES:
            values = {
                name: {seed: measure.sign * measure.of(run["directions"]) for seed, run in each.items()}
                for name, each in runs.items()
            }
            mean = measure.sign * np.mean(list(values[row].values()))
            cells.append(f"{measure.name} {mean:.3f}  regret {regret(values, fixed, row)}")
        lines.append(
            f"  {row:12} {'fixed' if row in fixed else '     '} " + " | ".join(cells) + f" | seeds {len(seeds)}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    if arguments and arguments[0] == "keep":
        setting, row, *folders = arguments[1:]
        for folder in folders:
            print(keep(setting, row, Path(folder)))
        return
    for setting in sorted(path.name for path in RESULTS.iterdir()):
        print(table(setting))


if __name__ == "__main__":
    main(sys.argv[1:])
