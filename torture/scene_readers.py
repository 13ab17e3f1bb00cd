"""What reads the files of a scene: the commands' own functions, without the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def read_report(scene: Path) -> None:
    """Everything that `report`, `compare` and `mixture` read of a run."""
    from evenglot.comparison.compare import compare
    from evenglot.comparison.scored_run import read_scored_run
    from evenglot.reporting.page import write_report
    from evenglot.runs.log import last_step, read_log
    from evenglot.runs.mixtures import stages_of
    from evenglot.runs.run import Run

    errors: list[Exception] = []
    run, other = Run(scene / "runs/first"), Run(scene / "runs/erm")
    last_step(run.log_file)

    def comparison() -> None:
        compare([read_scored_run(each, each.folder.name, "test") for each in (other, run)], "erm", "test").as_json()

    readers: list[Callable[[], object]] = [
        lambda: write_report([run], scene / "report.html"),
        comparison,
        lambda: stages_of(read_log(run.log_file)),
        lambda: run.frame("step"),
        run.refuse_if_emptied,
    ]
    for read in readers:
        try:
            read()
        except (ValueError, OSError) as error:
            errors.append(error)
    if errors:
        raise errors[0]


def read_model(scene: Path) -> None:
    """Load the model and its vocabularies, as `translate`, `score`, `serve` and `export` do."""
    import evenglot

    evenglot.load(scene / "runs/first").translate(["ba de"], source="por", to="en", beam=1, max_length=3)


def read_resume(scene: Path) -> None:
    """Resume the run for one more update."""
    from evenglot.config import load_config
    from evenglot.training.train import train

    config = load_config(scene / "runs/first/config.yaml", ["train.updates=9"], check_files=False)
    train(config, scene / "runs/first", resume=True)


def read_store(scene: Path) -> None:
    """Open the store, verify it, and read every sentence."""
    from evenglot.corpus.store import open_store

    store = open_store(scene / "store")
    store.fingerprint, store.warnings, store.sizes, store.target_tokens  # noqa: B018
    for direction in store.directions:
        for split in store.splits(direction):
            corpus = store.corpus(direction, split)
            len(corpus), [corpus.source[i] for i in range(len(corpus.source))]
            if split != "train":
                store.text(direction, split, "target")


def read_config(scene: Path) -> None:
    """The configuration of a run."""
    from evenglot.runs.run import Run

    config = Run(scene / "runs/first").config()
    Run(scene / "runs/erm").changes(config)
    config.balancer(dict.fromkeys(config.data.groups.names, 100), None, config.balance)


def read_baseline(scene: Path) -> None:
    """Reference losses."""
    from evenglot.balance import create
    from evenglot.balance.baseline import baseline_about

    file = scene / "runs/erm/baseline.json"
    baseline_about(file)
    create("chi-ibr", sizes={"aze-en": 1, "por-en": 9, "tur-en": 5}, baseline=file)


def read_export(scene: Path) -> None:
    """Open an exported folder."""
    from evenglot.inference.ctranslate2 import CTranslate2Engine

    CTranslate2Engine(scene / "export", 1)
