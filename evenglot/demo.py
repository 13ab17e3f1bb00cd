"""The demo: the whole pipeline on the embedded corpus, from raw text to three scored models and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from time import monotonic
from typing import Any

from rich.console import Console
from rich.text import Text

from evenglot.balance import Signal
from evenglot.comparison.compare import compare
from evenglot.comparison.scored_run import read_scored_run
from evenglot.comparison.tables import scores_sheet, verdict
from evenglot.config import Config, load_config
from evenglot.corpus.prepare import prepare
from evenglot.corpus.prepared import open_prepared
from evenglot.corpus.tables import store_table
from evenglot.inference.engines import SearchOptions
from evenglot.paper.recipes import recipe_config
from evenglot.progress import Bars
from evenglot.reporting.page import write_report
from evenglot.reporting.samples import samples
from evenglot.runs.events import DoneEvent, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.run import Run
from evenglot.runs.scores import read_translations, scored_translations, scores_file
from evenglot.scoring.score_run import score_run
from evenglot.training.parallel import processes
from evenglot.training.reference import baseline
from evenglot.training.train import train
from evenglot.wording import duration
from evenglot.yaml12 import dump_line

ERM = {"balance": {"strategy": "proportional"}}
FADE: dict[str, Any] = {}  # as in the recipe
# Losses of short intervals are noisy: about 20 intervals of a third of the data, and a small radius.
CHI = {"balance": {"strategy": "chi-ibr", "max_upsample": 2}, "batches.interval_pairs": 2886}
MINUTES = 5.0
UPDATES_A_MINUTE = 140  # for each model, so that the demo takes about the given time on two cores
WARMUP = 150
SEARCH = SearchOptions(max_ratio=3)  # a barely trained model tends to produce endless translations


def run_demo(out: Path, minutes: float = MINUTES, console: Console | None = None) -> Path:
    """Prepare, train three times, translate, score, report. Resumes if it was interrupted."""
    console = console or Console()
    started = monotonic()
    _say(
        console,
        f"""
        Software messages in five languages, translated to English: 4,158 training
        pairs for the largest language, 300 for the smallest. The demo trains three
        models with the same seed and the same number of updates:
          erm      samples the languages in proportion to their data;
          fade     samples small languages more while their text is new (the default);
          chi-ibr  samples those languages more whose loss is far above that of erm.
        This takes about {minutes:g} {"minute" if minutes == 1 else "minutes"}. All files are written to {out}/.
    """,
    )
    _step(console, 1, "Prepare the data: clean the text, learn vocabularies, write the store")
    plain = _config(out, ERM)
    store = prepare(plain, Bars())
    console.print(store_table(store))

    erm, fade, chi = runs = [Run(out / name) for name in ("erm", "fade", "chi-ibr")]
    updates = max(1, round(minutes * UPDATES_A_MINUTE))
    if erm.config_file.exists() and (begun := erm.config().train.updates) != updates:
        raise ValueError(
            f"{out}: contains a demo with {begun} updates, not {updates}; use the same --minutes or another --out"
        )
    _step(console, 2, f"Train erm: {updates} updates with proportional sampling")
    _train(_config(out, ERM, updates), erm)
    losses = out / "erm" / "baseline.json"
    if not losses.exists():
        with processes(plain.train) as mine:
            baseline(erm, losses, Signal(), mine, Bars())

    _step(console, 3, f"Train fade: {updates} updates, with less and less upsampling")
    _train(_config(out, FADE, updates), fade)
    _step(console, 4, f"Train chi-ibr: {updates} updates, with a new mixture for each interval")
    _train(_config(out, {**CHI, "balance.baseline": str(losses.resolve())}, updates), chi)

    _step(console, 5, "Translate and score the test sets")
    for run in runs:
        if not scores_file(run, "test").exists():
            score_run(run, "test", SEARCH, Bars())
    comparison = compare([read_scored_run(run, run.folder.name, "test") for run in runs], "erm", "test").as_json()
    for metric in _text_metrics(comparison):
        console.print(scores_sheet(comparison, metric).to_rich())
    _conclude(console, comparison)
    console.print(*_translations(runs), sep="\n")

    _step(console, 6, "Report")
    report = write_report([fade, chi, erm], out / "report.html", comparison=comparison)
    _say(
        console,
        f"""
        Open {report} in a browser. (The demo took {duration(monotonic() - started)}.)

        To train on your own data:
          evenglot example > conf.yaml    # explains every key; enter your own paths
          evenglot prepare conf.yaml
          evenglot train conf.yaml --out runs/first
    """,
    )
    return report


def _config(out: Path, strategy: Mapping[str, Any], updates: int | None = None) -> Config:
    settings: dict[str, Any] = {"store.folder": str((out / "store").resolve()), **strategy}
    if updates is not None:
        settings |= {"train.updates": updates, "train.warmup": min(WARMUP, updates // 4)}
    return load_config(recipe_config("tiny-webui"), [f"{key}={dump_line(value)}" for key, value in settings.items()])


def _train(config: Config, run: Run) -> None:
    """Train or resume, unless the run is complete."""
    ends = of_kind(read_log(run.log_file), DoneEvent) if run.log_file.exists() else []
    if not ends or ends[-1].step < config.train.updates:
        reason = train(config, run.folder, resume=run.config_file.exists())
        if reason == "stopped":
            raise ValueError("the demo was stopped; run the same command again to resume")


def _conclude(console: Console, comparison: Mapping[str, Any]) -> None:
    """Print the conclusions of the comparison and their limits."""
    for metric in _text_metrics(comparison):
        for line in verdict(comparison, metric):
            console.print(line, highlight=False, markup=False)
    _say(
        console,
        """
        One seed, small test sets and minutes of training cannot tell which strategy is
        better. `evenglot grid` compares strategies over several seeds, and
        docs/choosing.md recommends one to start with.
    """,
    )


def _text_metrics(comparison: Mapping[str, Any]) -> list[str]:
    """The metrics computed from text, the primary one first."""
    found = [key for key, about in comparison["metrics"].items() if about["from_text"]]
    return sorted(found, key=lambda key: key != comparison["primary"])


def _translations(runs: Sequence[Run]) -> list[Text]:
    """For each language, the sentence with the median score of erm, and the translations of all models."""
    found = []
    erm = samples(runs[0], "test")
    for name, chosen in erm.directions.items():
        sample = chosen.median
        lines = open_prepared(runs[0].config()).text(name, "test", "source")
        row = lines.index(sample.source)
        text = Text(f"{name}  ", style="bold").append(sample.source, style="not bold")
        text.append(f"\n    reference  {sample.reference}", style="not bold dim")
        for run in runs:
            said = read_translations(run, "test", name, scored_translations(run, "test"))[row]
            text.append(f"\n    {run.folder.name:9}  {said}", style="not bold")
        found.append(text)
    return found


def _step(console: Console, number: int, text: str) -> None:
    console.print()
    console.rule(f"[bold]{number} of 6[/]  {text}", align="left", style="dim")


def _say(console: Console, text: str) -> None:
    console.print(dedent(text).strip("\n"), highlight=False, soft_wrap=True, markup=False)
