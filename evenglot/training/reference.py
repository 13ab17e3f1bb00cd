"""Baselines: the losses of a trained model per direction, and the reference run of `balance.baseline: auto`."""

from __future__ import annotations

from pathlib import Path

from evenglot.balance import Signal, keep_mixture, mean_losses, save_baseline
from evenglot.balance.baseline import baseline_about
from evenglot.config import BalanceSettings, Config
from evenglot.corpus.prepared import open_prepared
from evenglot.corpus.store import Store
from evenglot.directions import whole_direction
from evenglot.model.interface import TranslationModel
from evenglot.progress import Bars
from evenglot.runs.checkpoint import fingerprint
from evenglot.runs.events import DoneEvent, ReferenceCost, of_kind
from evenglot.runs.log import read_log
from evenglot.runs.model import model_of
from evenglot.runs.run import Run, RunError
from evenglot.training.model import create_model, init_fingerprint
from evenglot.training.parallel import Processes
from evenglot.training.step import Step
from evenglot.training.validation import losses_of
from evenglot.wording import counted


def baseline(
    run: Run,
    out: Path,
    signal: Signal,
    processes: Processes,
    bars: Bars,
    store: Store | None = None,
    which: str = "best",
) -> dict[str, float]:
    """Compute the losses of a run's model per direction and per group, without dropout, and write them to `out`.

    `signal` gives the split and the unit (token or character); `store` may be passed if it is open already. `which`:
    best, last, average, or a number of updates.
    """
    config = run.config()
    if store is None:
        store = open_prepared(config, verify=processes.is_first)
    chosen = run.choose(which)
    content = chosen.read()
    if content.state.get("store") != store.fingerprint:
        raise RunError(f"{store.folder}: the content of the store has changed since this run was trained; train again")
    model = model_of(content, chosen.folder, config.model.init)
    losses = _losses_of(model, config, store, signal, processes, bars)
    if processes.is_first:
        save_baseline(
            out,
            losses,
            model=fingerprint(chosen),
            checkpoint=str(chosen.folder.name),
            step=chosen.step,
            **_about(config, store, signal),
            **_cost(run),
        )
    processes.wait()
    return losses


def init_baseline(
    config: Config, out: Path, store: Store, signal: Signal, processes: Processes, bars: Bars
) -> dict[str, float]:
    """`balance.baseline: init`: the losses of the pretrained model before its first update, written to `out`."""
    losses = _losses_of(create_model(config, store), config, store, signal, processes, bars)
    if processes.is_first:
        save_baseline(out, losses, model=init_fingerprint(config) or "", **_about(config, store, signal))
    processes.wait()
    return losses


def _losses_of(
    model: TranslationModel, config: Config, store: Store, signal: Signal, processes: Processes, bars: Bars
) -> dict[str, float]:
    """Mean losses per direction and per group, without dropout."""
    step = Step.of(config, store, model.to(processes.device), None, processes)
    texts = {name: name if signal.split == "train" else whole_direction(name) for name in step.names}
    missing = [name for name, text in texts.items() if signal.split not in store.splits(text)]
    if missing:
        raise RunError(f"{store.folder}: no {signal.split} text for {', '.join(missing)}; add data.{signal.split}")
    corpora = {name: store.corpus(text, signal.split) for name, text in texts.items()}
    pairs = sum(map(len, corpora.values()))
    with bars.task(f"losses of {counted(pairs, 'pair')}", pairs) as advance:
        seen = losses_of(step, corpora, config.batches.tokens_per_batch, advance)
    by_direction = seen.by_direction(step.names, signal.unit)
    sums, counts = ({**each, **config.data.groups.sum(each)} for each in by_direction)
    return mean_losses(sums, counts)


def _about(config: Config, store: Store, signal: Signal) -> dict[str, str | float]:
    """How losses were computed."""
    return {
        "split": signal.split,
        "unit": signal.unit,
        "label_smoothing": config.train.label_smoothing,
        "strategy": config.balance.strategy,
        "store": store.fingerprint,
    }


def _cost(run: Run) -> dict[str, float]:
    """Updates and seconds of the run, which are part of the cost of runs that use its losses."""
    ends = of_kind(read_log(run.log_file), DoneEvent) if run.log_file.exists() else []
    return {"updates": ends[-1].step, "seconds": ends[-1].seconds or 0.0} if ends else {}


def reference_cost(config: Config, run: Run) -> ReferenceCost | None:
    """The cost of the run that the baselines come from; None without baselines or if unknown."""
    given = config.balance.options.get("baseline")
    if not isinstance(given, str):
        return None
    own = config.balance.starts_as_baseline or config.balance.reference_mixture is not None
    about = baseline_about(run.baseline_file if own else given)
    cost = {key: about[key] for key in ("updates", "seconds") if isinstance(about.get(key), int | float)}
    return ReferenceCost(**cost) if cost else None


def reference_config(config: Config, mixture: str) -> Config:
    """The configuration of the reference run: with a fixed mixture, and the settings of `reference_run`."""
    strategy, options = keep_mixture(mixture)
    balance = BalanceSettings.model_validate({"strategy": strategy, **options, "p_unit": config.balance.p_unit})
    return config.reference_run.changed(config).model_copy(update={"balance": balance})


def with_baseline(config: Config, file: Path) -> BalanceSettings:
    """The balance settings with the baseline file in place of `auto` or `init`."""
    return config.balance.model_copy(update={"baseline": str(file)})
