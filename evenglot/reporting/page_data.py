"""Data of the HTML report: history, tables, warnings and sample translations of each run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenglot import __version__, yaml12
from evenglot.files import without_paths
from evenglot.reading import UnreadableError, read_text
from evenglot.reporting.page_comparison import comparison_data
from evenglot.reporting.page_summary import facts, figures, sentences
from evenglot.reporting.samples import samples, split_with_translations
from evenglot.reporting.warnings import Warning, left_out, mean_shares, outdated_scores, warnings, without_scores
from evenglot.runs.events import ConfigEvent, Event, ResumeEvent, StepEvent, of_kind
from evenglot.runs.history import History, LogNotStartedError, Series, history
from evenglot.runs.log import read_log
from evenglot.runs.results import refuse_changed_results
from evenglot.runs.run import Run
from evenglot.runs.scores import Scores, read_scores, scores_file
from evenglot.scoring.metrics import METRICS, PRIMARY, Metric

Data = dict[str, Any]

DIGITS = 4  # significant digits, more than a chart can show
TABLE_DIGITS = 8  # of numbers in tables, which are rounded again: more than a table shows
SCORE_KEYS = ("off_target", "off_target_references", "comet", "lines")  # in addition to the metrics
HEADING = "# All settings, including defaults. Paths are relative to the parent of the run folder, or shortened.\n"


def page_data(
    runs: Sequence[Run],
    *,
    names: Sequence[str] | None = None,
    comparison: Mapping[str, Any] | None = None,
    live: bool = False,
) -> Data:
    """All data of the page. Raises ValueError if a folder is not a run, unless `live`, where logs may appear later."""
    return {
        "evenglot": __version__,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "live": live,
        "metrics": [_metric(each) for each in METRICS.values()],
        "primary": PRIMARY,
        "runs": [run_data(run, name, live=live) for run, name in zip(runs, unique_names(runs, names), strict=True)],
        "comparison": None if comparison is None else comparison_data(comparison),
    }


def _metric(metric: Metric) -> Data:
    return {"key": metric.key, "scores_key": metric.scores_key, "heading": metric.heading, **metric.as_json()}


def short_names(runs: Sequence[Run]) -> list[str]:
    """Folder names, with as many parent folders as needed to make them distinct."""
    paths = [run.folder.resolve().parts for run in runs]
    for length in range(1, max(map(len, paths), default=1) + 1):
        names = ["/".join(parts[-length:]) for parts in paths]
        if len(set(names)) == len(set(paths)):
            break
    return names if runs else []


def unique_names(runs: Sequence[Run], names: Sequence[str] | None = None) -> list[str]:
    """The given names, or folder names; where several runs share one (e.g. seeds of a strategy), made distinct."""
    given = short_names(runs) if names is None else list(names)
    with_folder = [
        f"{name} {run.folder.resolve().name}" if given.count(name) > 1 else name
        for run, name in zip(runs, given, strict=True)
    ]
    found = next((some for some in (given, with_folder, short_names(runs)) if len(set(some)) == len(runs)), given)
    before = [found[:place].count(name) for place, name in enumerate(found)]  # the same run, given twice
    return [f"{name} ({count + 1})" if count else name for name, count in zip(found, before, strict=True)]


def run_data(run: Run, name: str, *, live: bool = False) -> Data:
    """Data of one run; `state` is waiting, running, stopped, done or broken (waiting and broken have a `message`)."""
    try:
        refuse_changed_results(run.folder)
        events = read_log(run.log_file)
        story = history(events)
    except (OSError, ValueError) as error:
        return _not_yet(run, name, error, live)
    step = max(event.step for event in events)
    scores = _scores(run)
    progress = _progress(events, story, step)
    shares = mean_shares(story.mixture, since=0, until=step)
    root = run.folder.absolute().parent
    shown, unshown = _samples(run)
    found = [*outdated_scores(scores, events), *warnings(story, step, scores, live), *unshown]
    return {
        "name": name,
        "state": progress["state"],
        "progress": progress,
        "summary": sentences(story, scores, shares, progress),
        "figures": figures(story, scores, progress),
        "facts": facts(story, progress, root),
        "rows": [_row(each, story, shares, scores) for each in story.names],
        "series": _all_series(story, step),
        "reweights": story.reweights,
        "p": rounded(story.p),
        "baseline": rounded(story.baseline),
        "scores": None if scores is None else rounded(_without_checksums(scores), TABLE_DIGITS),
        "samples": shown,
        "warnings": [warning.as_json() for warning in found],
        "config": _config(run.config_file, root),
    }


def _scores(run: Run) -> Scores | None:
    scores = read_scores(run)
    if scores is not None and METRICS[PRIMARY].scores_key not in scores.macro:
        raise ValueError(f"{run.folder}: its scores lack {METRICS[PRIMARY].label}; run `evenglot score` again")
    return scores


def _without_checksums(scores: Scores) -> Data:
    return {key: value for key, value in scores.as_json().items() if key != "translations"}


def _config(file: Path, root: Path) -> str:
    """The configuration without absolute paths; empty if it cannot be parsed."""
    if not file.exists():
        return ""
    try:
        content, _ = yaml12.parse(read_text(file))
    except yaml12.YamlError:
        return ""
    except UnreadableError as error:
        raise ValueError(f"{file}: {error}") from error
    return HEADING + yaml12.dump(without_paths(content, root))


def _not_yet(run: Run, name: str, error: Exception, live: bool) -> Data:
    """A run without a readable log: an error in a report, but a live page may be opened before training starts."""
    waiting = not run.log_file.exists() or not run.log_file.stat().st_size or isinstance(error, LogNotStartedError)
    if not live:
        state = "no event log yet; is it a run folder?" if run.folder.exists() else "no such folder"
        raise ValueError(f"{run.folder}: {state}" if waiting else str(error))
    if not waiting:
        return {"name": name, "state": "broken", "message": str(error)}
    message = "Training has not started to write its event log yet."
    if run.reference.log_file.exists():
        message = (
            f"Its reference run is trained first. To follow that: `evenglot report {run.reference.folder} --watch`"
        )
    return {"name": name, "state": "waiting", "message": message}


def _progress(events: Sequence[Event], story: History, step: int) -> Data:
    steps, done = of_kind(events, StepEvent), story.done
    last = steps[-1] if steps else StepEvent(step=0)
    state = "running" if done is None else "stopped" if done.stopped else "done"
    return {
        "state": state,
        "step": step,
        "updates": story.about.updates if last.total_updates is None else last.total_updates,
        "tokens": last.tokens if done is None or done.tokens is None else done.tokens,
        "seconds": _seconds(events, last) if done is None or done.seconds is None else done.seconds,
        "best_step": None if done is None else done.best_step,
        "last_event": events[-1].time,
    }


def _seconds(events: Sequence[Event], last: StepEvent) -> float:
    """Time until the last event, of a run that is not finished: what a `step` event says, and the clock since then."""
    since = next(event for event in reversed(events) if isinstance(event, ConfigEvent | ResumeEvent | StepEvent))
    try:
        clock = datetime.fromisoformat(events[-1].time) - datetime.fromisoformat(since.time)
    except (ValueError, TypeError):  # no times, damaged ones, or only one of them with a time zone
        return last.seconds
    return last.seconds + max(0.0, clock.total_seconds())


def _row(name: str, story: History, shares: Mapping[str, float], scores: Scores | None) -> Data:
    scored = {} if scores is None else scores.directions.get(name, {})
    row = {
        "name": name,
        "pairs": story.pairs[name],
        "p": story.p[name],
        "share": shares.get(name),
        "passes": story.passes[name],
        "train": _last(story.train_losses, name),
        "valid": _last(story.valid_losses, name),
        **{key: scored.get(key) for key in (*SCORE_KEYS, *(metric.scores_key for metric in METRICS.values()))},
    }
    return {**rounded(row, TABLE_DIGITS), "pairs": row["pairs"]}


def _last(series: Series, name: str) -> float | None:
    return next((value for value in reversed(series.values.get(name, ())) if value is not None), None)


def _all_series(story: History, step: int) -> Data:
    """All non-empty series; the last mixture is extended to the last update."""
    mixture = story.mixture
    if mixture and mixture.steps[-1] < step:
        held = {name: (*values, values[-1]) for name, values in mixture.values.items()}
        mixture = Series((*mixture.steps, step), held)
    found = {
        "mixture": mixture,
        "train": story.train_losses,
        "running": story.running_losses if story.follows_losses else Series((), {}),
        "valid": story.valid_losses,
        "chrf": story.chrf,
    }
    return {
        key: {"steps": list(series.steps), "values": rounded(series.values), "of": len(series.steps)}
        for key, series in found.items()
        if series
    }


def _samples(run: Run) -> tuple[Data, list[Warning]]:
    """Samples by direction, or a note why there are none; and a warning if some are left out."""
    split = split_with_translations(run)
    if split is None:
        return {"note": "No translations yet; run `evenglot score`."}, []
    try:
        found = samples(run, split)
    except (OSError, ValueError):  # the error itself names local paths, which do not belong in a report
        cause = "the store of this run is missing or has changed since it was translated"
        return {"note": f"No sample translations: {cause}; run `evenglot prepare` and `evenglot score` again."}, []
    unshown = [*without_scores(scores_file(run, split), split), *left_out(found.left_out, split)]
    if found.directions:
        directions = {name: rounded(each.as_json()) for name, each in found.directions.items()}
        return {"split": split, "directions": directions}, unshown
    if unshown:
        return {"note": unshown[-1].text}, unshown
    return {"note": f"No sentences in the {split} set; run `evenglot prepare` and `evenglot score` again."}, []


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """The value with numbers rounded, and None for numbers that are not finite."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return value


def thinned(data: Data, *, points: int, characters: int) -> Data:
    """The data with at most `points` per curve and `characters` per text; 0 characters: no texts."""
    return {**data, "runs": [_thinned_run(run, points, characters) for run in data["runs"]]}


def _thinned_run(run: Data, points: int, characters: int) -> Data:
    if "series" not in run:
        return run
    series = {key: _thinned_series(each, points) for key, each in run["series"].items()}
    return {**run, "series": series, "samples": _shortened(run["samples"], characters)}


def _thinned_series(series: Data, points: int) -> Data:
    """Evenly spaced points, including the first and the last."""
    count = len(series["steps"])
    if count <= points:
        return series
    places = [round(place * (count - 1) / (points - 1)) for place in range(points)]
    values = {name: [row[place] for place in places] for name, row in series["values"].items()}
    return {**series, "steps": [series["steps"][place] for place in places], "values": values}


def _shortened(samples: Data, characters: int) -> Data:
    if "directions" not in samples:
        return samples
    if not characters:
        return {"note": "Translations are omitted to keep this page small; include fewer runs to see them."}

    def short(value: Any) -> Any:
        if isinstance(value, str) and len(value) > characters:
            return value[: characters - 1] + "…"
        return {key: short(item) for key, item in value.items()} if isinstance(value, dict) else value

    return {**samples, "directions": short(samples["directions"])}
