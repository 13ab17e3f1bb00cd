"""A comparison of runs (comparison/compare.py) in the compact form embedded in the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenglot.comparison.bootstrap import ALPHA
from evenglot.comparison.tables import verdict
from evenglot.wording import listed

PARTS = ("mean", "worst", "low_resource", "high_resource")
MOST_TOLD = 4  # with more rows than this, only significantly different ones get a sentence
VALIDATION_DIGITS = 5


def comparison_data(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison with per-direction values as lists in the order of `directions`, so that a hundred fit."""
    names = list(comparison["directions"])
    metrics = comparison["metrics"]
    return {
        "split": comparison["split"],
        "reference": comparison["reference"],
        "samples": comparison["samples"],
        "worst_by": comparison["worst_by"],
        "warnings": comparison["warnings"],
        "signature": comparison["signature"],
        "metrics": metrics,
        "primary": comparison["primary"],
        "directions": [{"name": name, **comparison["directions"][name]} for name in names],
        "rows": [_row(row, names, metrics) for row in comparison["rows"]],
        "summary": {key: _summary(comparison, key) for key in metrics},
    }


def _row(row: Mapping[str, Any], names: list[str], metrics: Mapping[str, Any]) -> dict[str, Any]:
    digits = {key: metric["digits"] + 2 for key, metric in metrics.items()}  # two more, to avoid double rounding
    validation = row.get("validation", {})
    return {
        **{key: row[key] for key in ("name", "strategy", "tau", "seeds", "freedom", "cost")},
        "validation": [_short(validation.get(name), VALIDATION_DIGITS) for name in names],
        "scores": {key: _scores(row["scores"][key], names, digits[key]) for key in metrics},
        "difference": row["difference"]
        and {key: _difference(row["difference"][key], names, digits[key]) for key in metrics},
    }


def _short(value: Any, digits: int) -> Any:
    """The value with all numbers rounded."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, Mapping):
        return {key: _short(item, digits) for key, item in value.items()}
    return [_short(item, digits) for item in value] if isinstance(value, list | tuple) else value


def _scores(scores: Mapping[str, Any], names: list[str], digits: int) -> dict[str, Any]:
    """Scores; per direction [mean, standard deviation]."""
    by_name = scores["directions"]
    return {
        "directions": [_short([by_name[name]["mean"], by_name[name]["sd"]], digits) for name in names],
        **{part: _short(scores.get(part), digits) for part in PARTS},
    }


def _difference(difference: Mapping[str, Any], names: list[str], digits: int) -> dict[str, Any]:
    """Differences; per direction [difference, lower bound, upper bound, Holm-corrected p, 1 if significant]."""
    by_name = difference["directions"]
    return {
        "directions": [
            [
                *_short([by_name[name]["difference"], *by_name[name]["interval"]], digits),
                round(by_name[name]["p_holm"], 4),
                int(by_name[name]["p_holm"] < ALPHA),  # before rounding, which could change the result
            ]
            for name in names
        ],
        **{part: _clear(difference.get(part), digits) for part in PARTS},
        **{key: difference[key] for key in ("wins", "ties", "losses", "harmed")},
    }


def _clear(part: Mapping[str, Any] | None, digits: int) -> dict[str, Any] | None:
    """A difference of means; `clear` if its interval excludes 0 before rounding."""
    return None if part is None else {**_short(part, digits), "clear": _leaves_out_zero(part)}


def _leaves_out_zero(part: Mapping[str, Any]) -> bool:
    low, high = part["interval"]
    return bool(low > 0 or high < 0)


def _summary(comparison: Mapping[str, Any], key: str) -> list[str]:
    """Sentences that compare each strategy with the reference and name those that harm a direction."""
    against = [row for row in comparison["rows"] if row["difference"]]
    if not against:
        return [f"There is no other strategy to compare with {comparison['reference']}."]
    told = verdict(comparison, key)
    if len(against) > MOST_TOLD:
        clear = [_leaves_out_zero(row["difference"][key]["mean"]) for row in against]
        others = clear.count(False)
        told = [sentence for sentence, differs in zip(told, clear, strict=True) if differs]
        if others:
            told.append(f"{_others(others, told)} significantly different from {comparison['reference']} on average.")
    harming = [row["name"] for row in against if row["difference"][key]["harmed"]]
    if not harming:
        told.append("No direction is significantly worse.")
    elif len(against) > MOST_TOLD:
        told.append(f"At least one direction is significantly worse with {listed(harming)}.")
    return told


def _others(count: int, told: list[str]) -> str:
    if not told:
        return "No strategy is"
    return "One other strategy is not" if count == 1 else f"{count} other strategies are not"
