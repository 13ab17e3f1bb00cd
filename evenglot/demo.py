"""The demo: the whole way on the embedded corpus, from raw text to two scored models and a report of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from time import monotonic
from typing import Any

from rich.console import Console
from rich.text import Text

from evenglot.balance.balancer import Signal
from evenglot.comparison.compare import compare
from evenglot.comparison.results import read_result
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
from evenglot.runs.scores import read_translations, scores_file
from evenglot.scoring.score import score_run
from evenglot.training.parallel import processes
from evenglot.training.reference import baseline
from evenglot.training.train import train
from evenglot.wording import duration
from evenglot.yaml12 import dump_line

ERM = {"balance": {"strategy": "proportional"}}  # the recipe has chi-ibr
MINUTES = 5.0
UPDATES_A_MINUTE = 160  # of each model, so that all of it takes about the minutes that were asked for on two cores
WARMUP = 150
SEARCH = SearchOptions(max_ratio=3)  # a model that has learnt little goes on talking


def run_demo(out: Path, minutes: float = MINUTES, console: Console | None = None) -> Path:
    """Prepare, train twice, translate, score, report. Started again it goes on where it was."""
    console = console or Console()
    started = monotonic()
    _say(
        console,
        f"""
        Five languages of software messages, translated to English: 4,158 pairs of the largest, 300 of the smallest.
        Two models are trained on them, with the same seed and the same number of updates:
        erm on the data as they are, then chi-ibr, which shows more of what lags behind erm's losses.
        About {minutes:g} minutes. Everything will be in {out}/.
    """,
    )
    _step(console, 1, "Prepare: clean, learn vocabularies, write the store")
    plain = _config(out, ERM)
    store = prepare(plain, Bars())
    console.print(store_table(store))

    erm, chi = Run(out / "erm"), Run(out / "chi-ibr")
    updates = max(1, round(minutes * UPDATES_A_MINUTE))
    if erm.config_file.exists() and (begun := erm.config().train.updates) != updates:
        raise ValueError(
            f"{out}: has a demo of {begun} updates, not {updates}; give the same --minutes or another --out"
        )
    _step(console, 2, f"Train erm: {updates} updates on the data as they are")
    _train(_config(out, ERM, updates), erm)
    losses = out / "erm" / "baseline.json"
    if not losses.exists():
        with processes(plain.train) as mine:
            baseline(erm, losses, Signal(), mine, Bars())

    _step(console, 3, f"Train chi-ibr: {updates} updates, each epoch drawn anew")
    _train(_config(out, {"balance.baseline": str(losses.resolve())}, updates), chi)

    _step(console, 4, "Translate and score the test sets")
    for run in (erm, chi):
        if not scores_file(run, "test").exists():
            score_run(run, "test", SEARCH, Bars())
    comparison = compare(
        [read_result(run, run.folder.name, "test") for run in (erm, chi)], "erm", "test", warn=lambda text: None
    ).as_json()
    for metric in ("chrf", "bleu"):
        console.print(scores_sheet(comparison, metric).to_rich())
    _conclude(console, comparison)
    console.print(*_translations([erm, chi]), sep="\n")

    _step(console, 5, "Report")
    report = write_report([chi, erm], out / "report.html", comparison=comparison)
    _say(
        console,
        f"""
        {report}: open it in a browser. (This took {duration(monotonic() - started)}.)

        Now your own data:
          evenglot example > conf.yaml      # every key is explained; say where your text is
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
    """Unless it is done."""
    ends = of_kind(read_log(run.log_file), DoneEvent) if run.log_file.exists() else []
    if not ends or ends[-1].step < config.train.updates:
        reason = train(config, run.folder, resume=run.config_file.exists())
        if reason == "stopped":
            raise ValueError("the demo was stopped; start it again, and it goes on from here")


def _conclude(console: Console, comparison: Mapping[str, Any]) -> None:
    """What the numbers show, whoever wins."""
    for metric in ("chrf", "bleu"):
        for line in verdict(comparison, metric):
            console.print(line, highlight=False, markup=False)
    _say(
        console,
        """
        One seed, small test sets, minutes of training: see how it works here, not which strategy is best.
        `evenglot compare` takes several seeds, and docs/choosing.md says which strategy to begin with.
    """,
    )


def _translations(runs: Sequence[Run]) -> list[Text]:
    """Of each language the sentence that erm translates neither well nor badly, and what both models make of it."""
    found = []
    erm = samples(runs[0], "test")
    for name, chosen in erm.items():
        sample = chosen.median
        lines = open_prepared(runs[0].config()).text(name, "test", "source")
        row = lines.index(sample.source)
        text = Text(f"{name}  ", style="bold").append(sample.source, style="not bold")
        text.append(f"\n    reference  {sample.reference}", style="not bold dim")
        for run in runs:
            said = read_translations(run, "test", name)[row]
            text.append(f"\n    {run.folder.name:9}  {said}", style="not bold")
        found.append(text)
    return found


def _step(console: Console, number: int, text: str) -> None:
    console.print()
    console.rule(f"[bold]{number} of 5[/]  {text}", align="left", style="dim")


def _say(console: Console, text: str) -> None:
    console.print(dedent(text).strip("\n"), highlight=False, soft_wrap=True, markup=False)
