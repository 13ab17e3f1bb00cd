"""Summary of a run for the top of a report: sentences, key figures and facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from evenglot.files import without_paths
from evenglot.runs.events import ConfigEvent
from evenglot.runs.history import History
from evenglot.runs.scores import Scores
from evenglot.scoring.metrics import METRICS, PRIMARY, Metric, scored_by
from evenglot.wording import counted, duration, listed


def sentences(
    story: History, scores: Scores | None, shares: Mapping[str, float], progress: Mapping[str, Any]
) -> list[str]:
    """Sentences about the model and its data, its quality, and the most and least upsampled directions."""
    told = [_trained(story, progress), _quality(story, scores), _favoured(story, shares)]
    return [sentence for sentence in told if sentence]


def _trained(story: History, progress: Mapping[str, Any]) -> str:
    names, pairs = story.names, sum(story.pairs.values())
    smallest, largest = min(story.pairs, key=story.pairs.__getitem__), max(story.pairs, key=story.pairs.__getitem__)
    many = f"{len(names)} directions" if len(names) > 1 else f"one direction, {names[0]}"
    span = (
        f", from {story.pairs[smallest]:,} ({smallest}) to {story.pairs[largest]:,} ({largest})"
        if len(names) > 1
        else ""
    )
    so_far = {
        "done": f"trained in {duration(progress['seconds'])} with {counted(progress['step'], 'update')}",
        "stopped": f"stopped after {progress['step']:,} of {progress['updates']:,} updates",
    }.get(progress["state"], f"in training ({progress['step']:,} of {progress['updates']:,} updates)")
    about = story.about
    model = f"A model with {parameters(about.parameters)} parameters, balanced with the strategy {about.strategy}"
    return f"{model}, {so_far} on {pairs:,} sentence pairs in {many}{span}."


def _quality(story: History, scores: Scores | None) -> str:
    if scores is not None:
        told = f"On the {scores.split} set it reaches {listed(text_scores(scores.macro))}"
        metric = METRICS[PRIMARY]
        by_name = {name: row[metric.scores_key] or 0.0 for name, row in scores.directions.items()}
        if len(by_name) == 1:
            return f"{told}."
        worst = scores.worst_direction
        best = max(by_name, key=lambda name: metric.sign * by_name[name])
        if by_name[worst] == by_name[best]:
            return f"{told}, and the same {metric.label} in every direction."
        mean = scores.macro[metric.scores_key]
        to_mean, to_best = (abs(by_name[worst] - other) for other in (mean, by_name[best]))
        return (
            f"{told} on average; the worst direction is {worst} with {_told(metric, by_name[worst])}, {to_mean:.1f} "
            f"worse than the average and {to_best:.1f} worse than the best, {best}."
        )
    if not story.valid_losses_per_character:
        return ""
    last = {name: values[-1] for name, values in story.valid_losses_per_character.values.items()}
    losses = {name: loss for name, loss in last.items() if loss is not None}
    if not losses:
        return ""
    mean, worst = fmean(losses.values()), max(losses, key=losses.__getitem__)
    told = f"It is not scored yet; its last validation loss is {mean:.3f} per character on average"
    if len(losses) == 1:
        return f"{told}."
    above = 100 * (losses[worst] / mean - 1)
    return f"{told}, and highest for {worst} with {losses[worst]:.3f}, {above:.0f} % above the average."


def text_scores(scores: Mapping[str, Any]) -> list[str]:
    """Scores such as 'chrF++ 40.1' in all metrics computed from text, the primary metric first."""
    found = sorted(scored_by(scores), key=lambda metric: metric.key != PRIMARY)
    return [_told(metric, scores[metric.scores_key]) for metric in found if metric.from_text]


def _told(metric: Metric, score: float) -> str:
    return f"{metric.label} {metric.text(score, fewer=1)}"


def _favoured(story: History, shares: Mapping[str, float]) -> str:
    ratios = {name: shares[name] / p for name, p in story.p.items() if p and name in shares}
    if len(ratios) < 2:
        return ""
    most, least = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    if ratios[most] < 1.02 and ratios[least] > 0.98:
        return "All directions were sampled in proportion to their data."
    given = "weighted with" if story.reweights else "sampled at"
    return (
        f"Relative to its data, {most} was upsampled most ({given} {_times(ratios[most])} its share of the data) "
        f"and {least} least ({_times(ratios[least])})."
    )


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio >= 1 else f"{ratio:.2f} times"


def parameters(count: int) -> str:
    """Number of parameters for printing, in millions if large."""
    return f"{count / 1e6:,.1f} million" if count >= 1e6 else f"{count:,}"


def figures(story: History, scores: Scores | None, progress: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Key figures for the top of the report: label, value and remark."""
    found = [("sentence pairs", f"{sum(story.pairs.values()):,}", _directions(len(story.names)))]
    if scores is not None:
        metric = METRICS[PRIMARY]
        worst = scores.directions[scores.worst_direction]
        mean, low = (metric.text(each[metric.scores_key] or 0.0, fewer=1) for each in (scores.macro, worst))
        found.append((f"{metric.label}, mean", mean, ", ".join(text_scores(scores.macro)[1:])))
        if len(scores.directions) > 1:
            found.append((f"{metric.label}, worst", low, scores.worst_direction))
    elif story.valid_losses:
        last = [values[-1] for values in story.valid_losses.values.values()]
        losses = [loss for loss in last if loss is not None]
        if losses:
            found.append(("validation loss, mean", f"{fmean(losses):.3f}", "per token, not scored yet"))
    remark = "" if progress["state"] == "done" else f"of {progress['updates']:,}"
    found.append(("updates", f"{progress['step']:,}", remark or f"{progress['tokens'] / 1e6:,.1f} million tokens"))
    found.append(("training time", duration(progress["seconds"]), story.about.device))
    return found


def _directions(count: int) -> str:
    return f"{count} directions" if count > 1 else "one direction"


def facts(story: History, progress: Mapping[str, Any], root: Path) -> list[tuple[str, str]]:
    """Settings and environment of the run; paths are relative to the root."""
    about, config = story.about, without_paths(story.about.config, root)
    balance = {key: value for key, value in config.get("balance", {}).items() if value is not None}
    options = ", ".join(f"{key} {value}" for key, value in balance.items() if key != "strategy")
    model, train = config.get("model", {}), config.get("train", {})
    table = {
        "strategy": about.strategy,
        "strategy options": options,
        "model": f"{model.get('size', '')}, {parameters(about.parameters)} parameters".strip(", "),
        "updates": f"{progress['step']:,} of {progress['updates']:,}, at most {about.tokens_per_update:,} tokens each",
        "intervals": f"{len(story.interval_starts):,}",
        "target tokens": f"{progress['tokens']:,}",
        "time": duration(progress["seconds"]),
        "best checkpoint": "" if progress["best_step"] is None else f"after {counted(progress['best_step'], 'update')}",
        "learning rate": f"{train.get('learning_rate', '')}, {train.get('schedule', '')}".strip(", "),
        "device": f"{about.device}, {about.precision}, {_hands(about)}",
        "seed": str(config.get("seed", "")),
        "evenglot": about.evenglot,
        "libraries": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
        "started": _time(about.time),
        "last log event": _time(progress["last_event"]),
    }
    return [(name, value) for name, value in table.items() if value]


def _hands(about: ConfigEvent) -> str:
    processes, threads = about.processes, about.threads
    return f"{processes} process{'es' if processes > 1 else ''} with {threads} thread{'s' if threads > 1 else ''}"


def _time(stamp: object) -> str:
    """2026-11-16T02:16:56+00:00 as 2026-11-16 02:16:56 UTC."""
    return str(stamp or "").replace("T", " ").replace("+00:00", " UTC")
