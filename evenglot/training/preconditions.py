"""Checks before a run starts and before anything is written."""

from __future__ import annotations

from pathlib import Path

from evenglot.balance import Balancer, Signal
from evenglot.balance.baseline import baseline_about
from evenglot.config import BalanceSettings, Config
from evenglot.corpus.store import Store
from evenglot.directions import whole_direction
from evenglot.model.families import is_run, read_config
from evenglot.runs.run import Run, RunError
from evenglot.training.continuation import max_positions
from evenglot.wording import some


def refuse_without_validation(balancer: Balancer, store: Store) -> None:
    """Refuse a strategy that uses validation losses or gradients if a direction has no validation text."""
    if balancer.needs.validation_text:
        missing = [name for name in store.directions if "valid" not in store.splits(whole_direction(name))]
        if missing:
            raise RunError(
                f"{store.folder}: the strategy needs validation text, but the store has none for {some(missing)}; add "
                "data.valid and run `evenglot prepare`"
            )


def refuse_other_baseline(balance: BalanceSettings, signal: Signal | None, smoothing: float) -> None:
    """Refuse baselines of another split, unit (token or character) or label smoothing than this run uses."""
    file = balance.options.get("baseline")
    if not isinstance(file, str) or signal is None:
        return
    about = baseline_about(file)
    wanted = {"split": signal.split, "unit": signal.unit, "label_smoothing": smoothing}
    for key, value in wanted.items():
        if about.get(key, value) != value:
            raise RunError(
                f"{file}: baselines computed with {key} {about[key]!r}, but this run needs {value!r}; compute them "
                "again with `evenglot baseline`"
            )


def refuse_long_sentences(config: Config, store: Store) -> None:
    """Refuse sentences with more subwords than the model has positions."""
    most = _max_positions(config)
    is_new = config.model.init is None
    advice = "raise model.max_positions or lower clean.max_pieces" if is_new else "lower clean.max_pieces"
    for name in store.directions:
        for split in {"train", "valid"} & set(store.splits(name)):
            corpus = store.corpus(name, split)
            longest = max((int(side.lengths.max()) for side in (corpus.source, corpus.target) if len(side)), default=0)
            if longest > most:
                raise RunError(
                    f"{store.folder}: {name} ({split}) has a sentence of {longest} subwords, but the model has only "
                    f"{most} positions; {advice}"
                )


def _max_positions(config: Config) -> int:
    if config.model.init is None:
        return config.model.max_positions
    folder = Path(config.model.init)
    return max_positions(Run(folder)) if is_run(folder) else read_config(folder).max_positions
