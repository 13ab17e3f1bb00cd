"""The comparison of several runs (evaluation/compare.py) in the compact form that the page embeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS = ("mean", "worst", "low_resource", "high_resource")


def comparison_data(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Directions become a list, and what is known of each of them a list in the same order: a hundred must fit."""
    names = list(comparison["directions"])
    metrics = comparison["metrics"]
    return {
        "split": comparison["split"],
        "reference": comparison["reference"],
        "samples": comparison["samples"],
        "signature": comparison["signature"],
        "metrics": metrics,
        "directions": [{"name": name, **comparison["directions"][name]} for name in names],
        "rows": [_row(row, names, metrics) for row in comparison["rows"]],
        "summary": {key: _summary(comparison, key) for key in metrics},
    }


def _row(row: Mapping[str, Any], names: list[str], metrics: Mapping[str, Any]) -> dict[str, Any]:
    digits = {key: metric["digits"] + 1 for key, metric in metrics.items()}
    return {
        **{key: row[key] for key in ("name", "strategy", "tau", "seeds", "cost")},
        "scores": {key: _scores(row["scores"][key], names, digits[key]) for key in metrics},
        "difference": row["difference"]
        and {key: _difference(row["difference"][key], names, digits[key]) for key in metrics},
    }


def _scores(scores: Mapping[str, Any], names: list[str], digits: int) -> dict[str, Any]:
    by_name = scores["directions"]
    return {
        "directions": [round(by_name[name]["mean"], digits) for name in names],
        **{part: scores.get(part) for part in PARTS},
    }


def _difference(difference: Mapping[str, Any], names: list[str], digits: int) -> dict[str, Any]:
    """Of each direction [difference, lower end, upper end, p after Holm]."""
    by_name = difference["directions"]
    return {
        "directions": [
            [
                round(by_name[name]["difference"], digits),
                *(round(end, digits) for end in by_name[name]["interval"]),
                round(by_name[name]["p_holm"], 4),
            ]
            for name in names
        ],
        **{part: difference.get(part) for part in PARTS},
        **{key: difference[key] for key in ("wins", "ties", "losses", "harmed")},
    }


def _summary(comparison: Mapping[str, Any], key: str) -> str:
    """Which strategy is best on average, which for the worst direction, and who harms nobody."""
    metric, rows = comparison["metrics"][key], comparison["rows"]
    sign = 1 if metric["higher_is_better"] else -1
    best = {part: max(rows, key=lambda row: sign * row["scores"][key][part]["mean"]) for part in ("mean", "worst")}
    value = {part: f"{best[part]['scores'][key][part]['mean']:.{metric['digits']}f}" for part in best}
    other = " and" if best["mean"] is best["worst"] else f", {best['worst']['name']}"
    first = f"{best['mean']['name']} is best on average ({value['mean']}){other} by its worst direction"
    against = [row for row in rows if row["difference"]]
    surely = [row["name"] for row in against if _surely_better(row["difference"][key]["mean"], sign)]
    better = (
        f"Beyond chance, {_and(surely)} {'is' if len(surely) == 1 else 'are'} better on average than "
        f"{comparison['reference']}."
        if surely
        else f"No strategy is better on average than {comparison['reference']} beyond chance."
    )
    harming = [row["name"] for row in against if row["difference"][key]["harmed"]]
    harm = f"Some direction gets significantly worse with {_and(harming)}." if harming else "No direction is harmed."
    return (
        f"{metric['label']}: {first} ({value['worst']}). {better if against else ''} {harm if against else ''}".strip()
    )


def _surely_better(mean: Mapping[str, Any], sign: int) -> bool:
    low, high = mean["interval"]
    return bool(low > 0 if sign > 0 else high < 0)


def _and(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
