"""`evenglot train`: from a configuration to a trained model in a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evenglot.balance import Signal
from evenglot.config import BalanceSettings, Config
from evenglot.corpus.prepared import (
    open_prepared,
    other_paths,
    refuse_other_text,
    refuse_other_tokenizer,
    text_has_changed,
)
from evenglot.corpus.store import Store
from evenglot.files import lock
from evenglot.progress import Bars
from evenglot.runs.checkpoint_folder import tidy
from evenglot.runs.run import Run, RunError
from evenglot.training.loop import Training
from evenglot.training.parallel import Processes, processes
from evenglot.training.preconditions import refuse_long_sentences, refuse_other_baseline, refuse_without_validation
from evenglot.training.reference import baseline, init_baseline, reference_config, with_baseline
from evenglot.training.warnings import warnings_before_reference
from evenglot.wording import some


def train(config: Config, folder: Path, *, resume: bool = False) -> str:
    """Train in a run folder, in one process or in those started by `torchrun`. Returns the reason why it ended.

    `resume`: continue the run in this folder, if there is one.
    """
    run = Run(Path(folder))
    if resume and run.config_file.exists():
        run.refuse_if_changed(config)  # first: to prepare the text anew would not help
    store = open_prepared(config, verify=False)  # before anything is written
    refuse_other_tokenizer(config, store)
    has_begun = any(run.checkpoints.glob("*"))
    if not has_begun:  # a resumed run compares the content of the store instead
        refuse_other_text(config, store)
        run.refuse_other_files()
    with processes(config.train) as mine, _only_one(run, mine):
        if mine.is_first:
            for each in (run, run.reference):
                tidy(each.checkpoints)
            store.verify()
            if config.train.precision not in ("auto", mine.precision):
                Bars().warn(
                    f"train.precision: {config.train.precision} does not work on this CPU; using {mine.precision}"
                )
        balance = config.balance
        if mine.is_first and not has_begun:
            _warn_of_other_text(config, store)
        if (mixture := balance.reference_mixture) is not None:
            reason = _train_reference(config, mixture, run, store, mine, resume)
            if reason == "stopped":
                return _stopped(run, mine)
            balance = with_baseline(config, run.baseline_file)
        elif balance.starts_as_baseline:
            _compute_init_baseline(config, run, store, mine, resume)
            balance = with_baseline(config, run.baseline_file)
        reason = _train(config, balance, run, store, mine, resume)
        return _stopped(run, mine) if reason == "stopped" else reason


def _warn_of_other_text(config: Config, store: Store) -> None:
    if elsewhere := other_paths(config, store):
        Bars().warn(
            f"{some(elsewhere)}: the paths have changed since the store was prepared. Training uses the store; if the "
            "text has changed, run `evenglot prepare` first."
        )
    elif text_has_changed(config, store):
        Bars().warn(
            f"{store.folder}: text files were written after the store was prepared. Training uses the store; if the "
            "text has changed, run `evenglot prepare` first."
        )


def _stopped(run: Run, mine: Processes) -> str:
    """Say how to go on."""
    if mine.is_first:
        Bars().note(f"To go on: evenglot train --resume {run.folder}")
    return "stopped"


def _train(config: Config, balance: BalanceSettings, run: Run, store: Store, mine: Processes, resume: bool) -> str:
    refuse_long_sentences(config, store)
    groups = config.data.groups
    balancer = config.balancer(groups.sum(store.sizes), groups.sum(store.target_tokens), balance)
    refuse_without_validation(balancer, store)
    refuse_other_baseline(balance, balancer.signal, config.train.label_smoothing)
    _check_folder(run, config, resume)
    mine.wait()
    training = Training(config, run, store, balancer, mine)
    try:
        return training.run(resume)
    finally:
        training.record.close()


def _check_folder(run: Run, config: Config, resume: bool) -> None:
    if resume and run.config_file.exists():
        run.refuse_if_changed(config)
        run.refuse_if_emptied()
    else:
        run.refuse_if_taken()


def _train_reference(config: Config, mixture: str, run: Run, store: Store, mine: Processes, resume: bool) -> str:
    """`balance.baseline: auto`: train a reference run with a fixed mixture and compute its losses, if not done yet."""
    signal = config.balance.description.needs.losses or Signal()
    bars = Bars()
    plain = reference_config(config, mixture)
    _check_folder(run, config, resume)
    if resume and run.baseline_file.exists():
        if run.reference.config_file.exists():
            run.reference.refuse_if_changed(plain)
        return "done"  # only the losses are needed; the checkpoints may have been removed
    _check_folder(run.reference, plain, resume)
    refuse_long_sentences(plain, store)
    mine.wait()  # until no process looks at the folder
    if mine.is_first:
        run.begin(config, store.vocabulary_files)  # so that the folder is enough to resume
        sampling = "proportional sampling" if mixture == "data" else mixture
        bars.note(
            f"balance.baseline: auto. Training a reference run with {sampling} first, in {run.reference.folder}; this "
            "doubles the cost."
        )
        for _, message in warnings_before_reference(config, store):
            bars.warn(f"warning  {message}")
    reason = _train(plain, plain.balance, run.reference, store, mine, resume)
    if reason != "stopped":
        baseline(run.reference, run.baseline_file, signal, mine, bars, store)
    return reason


def _compute_init_baseline(config: Config, run: Run, store: Store, mine: Processes, resume: bool) -> None:
    """`balance.baseline: init`: compute the losses of the pretrained model, if not done yet."""
    _check_folder(run, config, resume)
    if not (resume and run.baseline_file.exists()):
        signal = config.balance.description.needs.losses or Signal()
        init_baseline(config, run.baseline_file, store, signal, mine, Bars())


@contextmanager
def _only_one(run: Run, mine: Processes) -> Iterator[None]:
    """Lock the run folder, so that no other process writes to it."""
    if not mine.is_first:
        yield
        return
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot create the run folder: {error.strerror}; choose another with --out"
        raise RunError(f"{run.folder}: {reason}") from error
    busy = f"{run.folder}: another process is training in this folder; wait for it, or choose another --out"
    with lock(run.folder, busy):
        yield
