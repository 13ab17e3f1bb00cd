"""What must hold before a run starts: checked before anything is written."""

from __future__ import annotations

from evenglot.balance import Balancer, Signal
from evenglot.balance.baseline import baseline_about
from evenglot.config import BalanceSettings, Config
from evenglot.corpus.store import Store
from evenglot.runs.run import RunError
from evenglot.wording import some


def refuse_without_validation(balancer: Balancer, store: Store) -> None:
    """Some strategies listen to validation losses, or compare with validation gradients."""
    if balancer.needs.validation_text:
        missing = [name for name in store.directions if "valid" not in store.splits(name)]
        if missing:
            raise RunError(
                f"{store.folder}: the strategy needs validation text, and {some(missing)} has none in the store"
            )


def refuse_other_baseline(balance: BalanceSettings, signal: Signal | None, smoothing: float) -> None:
    """Baselines of tokens are no reference for characters, nor those of training for validation."""
    file = balance.options.get("baseline")
    if not isinstance(file, str) or signal is None:
        return
    about = baseline_about(file)
    wanted = {"split": signal.split, "unit": signal.unit, "label_smoothing": smoothing}
    for key, value in wanted.items():
        if about.get(key, value) != value:
            raise RunError(
                f"{file}: these baselines have {key} {about[key]!r}, this run needs {value!r}; see `evenglot baseline`"
            )


def refuse_long_sentences(config: Config, store: Store) -> None:
    """The model has so many positions; the store may have been made with a higher limit."""
    for name in store.directions:
        for split in {"train", "valid"} & set(store.splits(name)):
            corpus = store.corpus(name, split)
            longest = max((int(side.lengths.max()) for side in (corpus.source, corpus.target) if len(side)), default=0)
            if longest > config.model.max_positions:
                raise RunError(
                    f"{store.folder}: {name} ({split}) has a sentence of {longest} pieces, the model has "
                    f"{config.model.max_positions} positions; raise model.max_positions or lower clean.max_pieces"
                )
