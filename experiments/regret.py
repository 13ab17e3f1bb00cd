"""Regret: how far a strategy is from the best fixed mixture of a setting, chosen in hindsight.

    python -m experiments.regret keep SETTING ROW RUN ...    # store the numbers of finished runs in default/results/
    python -m experiments.regret                             # draw experiments/default/regret.svg and regimes.svg
    python -m experiments.tables                             # the tables in docs/results.md and default/README.md

A setting is a corpus, a direction and a number of passes. The best fixed mixture is chosen on other seeds than the one
that it is judged on (cross-fitting): the best of several noisy rows, judged on the same runs, would look better than it
is. Regret of a seed = best fixed mixture (chosen on the others) - strategy; its mean over seeds has a t interval from
the noise that is left after row and seed effects, pooled over all rows and settings.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t  # type: ignore[import-untyped]

from evenglot.reporting.figures.canvas import DASHED, GREY, LIGHT_GREY, colours, log_shares, picture
from evenglot.robust.validate import Vector
from experiments.wording import Table, language, signed

RESULTS = Path(__file__).parent / "default" / "results"
FIXED = ("proportional", "temperature", "mix")  # strategies
POINTS = 20  # of a course that are stored
REGIMES = {  # settings and rows of the picture of courses: where ERM and a flat mixture change places
    "related-any-en-4": "8 languages, 3.9 passes",
    "simple-any-en-50": "the same 8 languages, 50 passes",
}
NAMES = {  # of the rows
    "fade75to25": "`fade` (default)",
    "fade75": "`fade`, ends at data",
    "fade50": "`fade`, mix:0.5 to data",
    "fade100": "`fade`, uniform to data",
    "erm": "ERM (proportional)",
    **{f"tau{tau}": f"`temperature`, tau = {tau}" for tau in ("1.5", "2", "3", "5", "100")},
    **{f"mix{percent}": f"`mix`, alpha = {percent / 100:g}" for percent in (25, 50, 75)},
    "unimax": "UniMax",
    "chi": "chi-IBR, defaults",
    "chibase": "chi-IBR as published",
    "chipaper": "chi-IBR, no baseline",
    "chimix": "chi-IBR around mix:0.5",
    "multidds": "MultiDDS",
    "groupdro": "Group DRO",
}
COURSES = ("erm", "mix50", "fade75to25")


@dataclass(frozen=True)
class Measure:
    """A number of a run, larger if better, whose regret is to be at most `goal`."""

    name: str
    of: Callable[[Mapping[str, Mapping[str, float]]], float]
    goal: float
    shown: Callable[[float], str] = "{:.1f}".format
    unit: str = ""


def _values(directions: Mapping[str, Mapping[str, float]], key: str) -> list[float]:
    return sorted(scores[key] for scores in directions.values())


def _log_loss(directions: Mapping[str, Mapping[str, float]]) -> float:
    """Minus 100 times the logarithm of the mean loss, so that differences are percents."""
    return -100 * math.log(float(np.mean(_values(directions, "loss_per_character"))))


MEASURES = {
    "chrf": Measure("chrF++", lambda directions: float(np.mean(_values(directions, "chrf"))), 0.3),
    "worst": Measure(
        "chrF++ of the three worst", lambda directions: float(np.mean(_values(directions, "chrf")[:3])), 0
    ),
    "loss": Measure("loss per character", _log_loss, 1, lambda value: f"{math.exp(-value / 100):.3f}", " %"),
}


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


Values = dict[str, dict[int, float]]  # of a measure, by row and seed


@dataclass(frozen=True)
class Regret:
    """The mean over seeds with its 95 % interval; positive: worse than the best fixed mixture."""

    mean: float
    half: float
    seeds: int

    def verdict(self, goal: float) -> str:
        """Whether the interval is below the goal, above it, or has it inside."""
        if self.mean + self.half <= goal:
            return "met"
        return "missed" if self.mean - self.half > goal else "undecided"

    def written(self, unit: str = "", *, seeds: bool = False) -> str:
        """For tables."""
        half = "?" if math.isnan(self.half) else f"{self.half:.1f}"
        return f"{signed(self.mean, 1)} ± {half}{unit}{f' ({self.seeds})' if seeds else ''}"


def load(setting: str) -> dict[str, dict[int, dict[str, Any]]]:
    """The stored runs by row and seed."""
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for file in sorted((RESULTS / setting).glob("*.json")):
        row, _, seed = file.stem.rpartition("-")
        rows.setdefault(row, {})[int(seed)] = json.loads(file.read_text(encoding="utf-8"))
    return rows


def is_fixed(run: Mapping[str, Any]) -> bool:
    """Whether the mixture of the run was constant, by one of the strategies that the best one is chosen from."""
    mixtures = {json.dumps(each["q"], sort_keys=True) for each in run["mixture"]}
    return len(mixtures) == 1 and run["balance"]["strategy"] in FIXED


def noise(*settings: Values) -> tuple[float, int]:
    """Standard deviation of a run, given its row and seed, and its degrees of freedom; pooled over these settings."""
    squares, freedom = 0.0, 0
    for values in settings:
        cells = [(row, seed, value) for row, runs in values.items() if len(runs) > 1 for seed, value in runs.items()]
        if not cells:
            continue
        rows, seeds = sorted({row for row, _, _ in cells}), sorted({seed for _, seed, _ in cells})
        design = np.zeros((len(cells), len(rows) + len(seeds) - 1))
        for k, (row, seed, _) in enumerate(cells):
            design[k, rows.index(row)] = 1
            if seed != seeds[0]:
                design[k, len(rows) + seeds.index(seed) - 1] = 1
        target = np.array([value for _, _, value in cells])
        fitted, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
        squares += float(((target - design @ fitted) ** 2).sum())
        freedom += len(cells) - int(rank)
    return (math.sqrt(squares / freedom), freedom) if freedom else (float("nan"), 0)


def regret(values: Values, fixed: Sequence[str], strategy: str, error: tuple[float, int] | None = None) -> Regret:
    """Regret of a strategy, where `values` are larger if better; `error`: as `noise`, if not of these values alone."""
    differences = []
    for seed, own in values[strategy].items():
        rivals = {row: values[row] for row in fixed if seed in values[row]}
        if not rivals:  # not run yet with this seed
            continue
        means = {
            row: np.mean([value for other, value in runs.items() if other != seed])
            for row, runs in rivals.items()
            if len(runs) > 1
        }
        best = max(means, key=lambda row: means[row]) if means else max(rivals, key=lambda row: rivals[row][seed])
        differences.append(rivals[best][seed] - own)
    spread, freedom = error or noise(values)
    half = float(student_t.ppf(0.975, freedom) * spread * np.sqrt(2 / len(differences))) if freedom else float("nan")
    return Regret(float(np.mean(differences)), half, len(differences))


def pooled_noise(measure: Measure) -> tuple[float, int]:
    """Noise of a run, pooled over all settings: few seeds of each are not enough to tell how they differ in it."""
    return noise(*(values_of(setting, measure) for setting in settings()))


def values_of(setting: str, measure: Measure) -> Values:
    """The measure of all runs, by row and seed."""
    return {
        row: {seed: measure.of(run["directions"]) for seed, run in runs.items()} for row, runs in load(setting).items()
    }


def fixed_rows(setting: str) -> list[str]:
    """The rows with a constant mixture."""
    return [row for row, runs in load(setting).items() if all(map(is_fixed, runs.values()))]


def settings() -> list[str]:
    """The settings that have results, of a fixed mixture among others."""
    return [name for name in sorted(path.name for path in RESULTS.iterdir()) if fixed_rows(name)]


def everything(kind: str) -> Table:
    """All rows of a setting: means, and regrets with their intervals."""
    values = {key: values_of(kind, measure) for key, measure in MEASURES.items()}
    errors = {key: pooled_noise(measure) for key, measure in MEASURES.items()}
    fixed = fixed_rows(kind)
    rows = []
    for row, runs in values["chrf"].items():
        cells = [f"{row}{' (fixed)' if row in fixed else ''}", _name(row), str(len(runs))]
        for key, measure in MEASURES.items():
            found = regret(values[key], fixed, row, errors[key])
            cells += [measure.shown(float(np.mean(list(values[key][row].values())))), found.written(measure.unit)]
        rows.append(cells)
    heading = ["", "strategy", "seeds"]
    for measure in MEASURES.values():
        heading += [measure.name, "regret"]
    return heading, sorted(rows, key=lambda cells: -float(np.mean(list(values["chrf"][cells[0].split()[0]].values()))))


def mean_over_settings(regrets: Sequence[Regret]) -> Regret:
    """The mean regret, every setting counting the same. Their errors are independent."""
    half = math.sqrt(sum(each.half**2 for each in regrets)) / len(regrets)
    return Regret(float(np.mean([each.mean for each in regrets])), half, sum(each.seeds for each in regrets))


def by_setting(kind: str) -> Table:
    """Regrets of one measure: strategies x settings, and their mean; the number of runs in parentheses."""
    measure, found = MEASURES[kind], settings()
    values, error = {setting: values_of(setting, measure) for setting in found}, pooled_noise(measure)
    lines = []
    for row in sorted({row for each in values.values() for row in each}, key=_order):
        known = {
            setting: regret(values[setting], fixed_rows(setting), row, error)
            for setting in found
            if row in values[setting]
        }
        written = [known[name].written(measure.unit, seeds=True) if name in known else "–" for name in found]
        whole = mean_over_settings(list(known.values())) if len(known) == len(found) else None
        lines.append([_name(row), *written, "–" if whole is None else whole.written(measure.unit, seeds=True)])
    return ["", *found, "mean of all"], lines


def goals(row: str) -> Table:
    """Regrets of a row: settings x measures, and by its interval whether a goal is met, missed or undecided."""
    known = [setting for setting in settings() if row in load(setting)]
    cells: dict[str, list[str]] = {setting: [] for setting in [*known, "mean of all"]}
    for measure in MEASURES.values():
        error = pooled_noise(measure)
        found = [regret(values_of(setting, measure), fixed_rows(setting), row, error) for setting in known]
        for setting, each in zip(cells, [*found, mean_over_settings(found)], strict=True):
            cells[setting].append(f"{each.written(measure.unit)}: {each.verdict(measure.goal)}")
    heading = [f"{measure.name} (at most {measure.goal:g}{measure.unit})" for measure in MEASURES.values()]
    return ["", *heading], [[setting, *each] for setting, each in cells.items()]


def means() -> Table:
    """Mean regret over all settings, of the rows that were run in each of them."""
    everywhere = set.intersection(*(set(load(setting)) for setting in settings()))
    cells: dict[str, list[str]] = {row: [] for row in sorted(everywhere, key=_order)}
    for measure in MEASURES.values():
        error = pooled_noise(measure)
        values = {setting: values_of(setting, measure) for setting in settings()}
        for row, line in cells.items():
            found = [regret(values[setting], fixed_rows(setting), row, error) for setting in values]
            line.append(mean_over_settings(found).written(measure.unit))
    return ["", *(measure.name for measure in MEASURES.values())], [[_name(row), *line] for row, line in cells.items()]


def _name(row: str) -> str:
    return NAMES.get(row, row)


def _order(row: str) -> tuple[int, str]:
    known = [*NAMES]
    return known.index(row) if row in known else len(known), row


def draw(path: Path) -> None:
    """The regrets of all rows in all settings, with their intervals and goals."""
    found = settings()
    rows = sorted({row for setting in found for row in load(setting)}, key=_order)[::-1]
    with picture(path, 10, 0.35 * len(rows) + 1.4) as figure:
        axes = figure.subplots(1, len(MEASURES), sharey=True)
        for axis, measure in zip(axes, MEASURES.values(), strict=True):
            error = pooled_noise(measure)
            axis.axvline(measure.goal, color=GREY, linestyle=DASHED)
            for place, (setting, colour) in enumerate(colours(found).items()):
                values, fixed = values_of(setting, measure), fixed_rows(setting)
                results = {row: regret(values, fixed, row, error) for row in values}
                axis.errorbar(
                    [result.mean for result in results.values()],
                    [rows.index(row) + 0.16 * ((len(found) - 1) / 2 - place) for row in results],
                    xerr=[0 if math.isnan(result.half) else result.half for result in results.values()],
                    fmt="o",
                    markersize=4,
                    linewidth=1,
                    color=colour,
                    label=setting,
                )
            axis.set_xlabel(f"regret, {measure.name}{measure.unit}")
            axis.set_yticks(range(len(rows)), [_name(row).replace("`", "") for row in rows])
            axis.grid(axis="x", color=LIGHT_GREY)
            axis.set_axisbelow(True)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(found))


def draw_regimes(path: Path) -> None:
    """Share and held-out loss of every language during training, in the settings where the best mixtures differ."""
    sizes = next(iter(load(next(iter(REGIMES)))["erm"].values()))["sizes"]
    directions = sorted(sizes, key=lambda name: -sizes[name])
    with picture(path, 12, 7) as figure:
        parts = figure.subfigures(len(REGIMES), 1, squeeze=False).flat
        for part, (setting, title) in zip(parts, REGIMES.items(), strict=True):
            runs = {row: load(setting)[row] for row in COURSES}
            seeds = set.intersection(*(set(each) for each in runs.values()))
            runs = {row: {seed: each[seed] for seed in sorted(seeds)} for row, each in runs.items()}
            part.suptitle(title, fontsize="large")
            axes = part.subplots(2, len(directions), sharex=True, sharey="row")
            for (above, below), name in zip(axes.T, directions, strict=True):
                above.set_title(language(name), fontsize="medium")
                log_shares(above, 0.005, 0.6)
                _, usual = course(runs["erm"], "validation", "loss", name)
                for row, colour in colours(COURSES).items():
                    label = _name(row).replace("`", "")
                    above.plot(*course(runs[row], "mixture", "q", name), color=colour, label=label)
                    steps, losses = course(runs[row], "validation", "loss", name)
                    below.plot(steps, 100 * (losses / usual - 1), color=colour)
                below.xaxis.set_major_formatter(lambda updates, _: f"{updates / 1000:g}k")
            for axis in axes.flat:
                axis.grid(color=LIGHT_GREY)
            axes[0, 0].set_ylabel("share of the batches")
            axes[1, 0].set_ylabel("held-out loss\nagainst ERM, %")
            part.supxlabel("updates", fontsize="medium")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=len(COURSES))


def course(runs: Mapping[int, Mapping[str, Any]], kind: str, value: str, name: str) -> tuple[list[int], Vector]:
    """Steps, and the mean over seeds of a value of a direction at these steps."""
    courses = [run[kind] for run in runs.values()]
    return [event["step"] for event in courses[0]], np.mean(
        [[event[value][name] for event in c] for c in courses], axis=0
    )


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    if arguments and arguments[0] == "keep":
        setting, row, *folders = arguments[1:]
        for folder in folders:
            print(keep(setting, row, Path(folder)))
        return
    draw(RESULTS.parent / "regret.svg")
    draw_regimes(RESULTS.parent / "regimes.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
