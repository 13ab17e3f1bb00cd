"""The training loop. For each interval: draw samples, do the updates, validate, update the mixture, save."""

from __future__ import annotations

from functools import cache, partial
from time import monotonic
from typing import Any

import numpy as np
import torch

from evenglot.balance import Balancer, Split
from evenglot.batches.draw import Interval, draw
from evenglot.batches.fit import fit
from evenglot.batches.load import Batch, Loader, collate, load
from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.directions import whole_direction
from evenglot.runs.average import average
from evenglot.runs.model import refuse_misfit
from evenglot.runs.run import Run, RunError
from evenglot.training.memory import memory_errors_explained
from evenglot.training.model import create_model, init_fingerprint
from evenglot.training.optimizer import create_optimizer, learning_rate, load_optimizer_tensors, optimizer_tensors
from evenglot.training.parallel import Processes
from evenglot.training.parallel_modes import load_weights, parallel_mode, whole_weights
from evenglot.training.position import Position
from evenglot.training.probe import mean_cosines
from evenglot.training.record import Record
from evenglot.training.saved_state import refuse_invalid
from evenglot.training.saving import Checkpointer, Moment, Snapshot
from evenglot.training.signals import StopRequest, stop_requests
from evenglot.training.step import Observed, Step
from evenglot.training.validation import Validator


class Training:
    """The state of a run in memory. `run` trains until the run is complete or is asked to stop."""

    def __init__(self, config: Config, run: Run, store: Store, balancer: Balancer, processes: Processes) -> None:
        self.config, self.settings = config, config.train
        self.home, self.store, self.balancer, self.processes = run, store, balancer, processes
        self.groups = config.data.groups
        self.init = init_fingerprint(config)
        self.model = create_model(config, store)
        mode = parallel_mode(self.model, self.settings, processes)
        self.optimizer = create_optimizer(self.model, self.settings)
        self.rate = learning_rate(self.settings)
        self.step = Step.of(config, store, self.model, self.optimizer, processes, mode)
        self.corpora = {name: store.corpus(name, "train") for name in self.step.names}
        self.validator = Validator(self.step, store, config.batches.tokens_per_batch, self.settings)
        self.record = Record(config, run, store, processes, mode.name)
        self.at = Position.start(self.step.names, config.interval_updates)
        self.checkpointer = Checkpointer(run, self.settings, processes, self.record.checkpoint, self.record.say)

    def run(self, resume: bool = False) -> str:
        """Train to the end. Returns the reason why training ended."""
        explained = memory_errors_explained(self.config, lambda: self.at.step)
        with stop_requests(lambda: self.record.has_picture) as request, explained:
            self._begin(resume)
            reason = None
            while reason is None:
                reason = self._train_interval(self._draw_interval(), request)
            self._finish(reason)
        return reason

    def _train_interval(self, loader: Loader, request: StopRequest) -> str | None:
        """Train the rest of an interval. Returns the reason if training ends here."""
        if 0 < self.at.update < len(loader):
            self._between_updates()  # a run that was stopped has not done this yet
        for update, batches in loader.iterate(self.at.update):
            if (reason := self._over()) is not None:
                return reason
            self._update(loader, update, batches)
            if self._asked_to_stop(request):
                return "stopped"
            if update + 1 < len(loader):
                self._between_updates()
        self._end_interval(loader.interval)
        return self._over()

    # ------------------------------------------------------------------------------------------ parts of the loop

    def _begin(self, resume: bool) -> None:
        """Resume from a checkpoint, if requested and there is one; else start the run."""
        self._rehearse()
        resumed = resume and self._restore()
        if not resumed:
            self.record.log.rewind(0)  # remove the events of a run that was killed before its first checkpoint
        self.record.begin(self.at.step)
        if resumed:
            self.record.resume(self.at.step)
        if self.processes.is_first:
            self.home.begin(self.config, self.store.vocabulary_files)
        if resumed:
            return
        if resume:
            self.record.say(f"{self.home.folder}: no checkpoint to resume from; starting from the beginning.")
        loader = self._draw_interval()
        updates = self._total_updates(loader)
        self.record.start(loader, self.balancer, self.model, updates=updates, each=self._seconds_of_an_update(loader))
        self.record.warnings(self.balancer, loader, updates)

    def _rehearse(self) -> None:
        """In new and resumed runs alike, if the mode needs it: a backward pass over one pair, without an effect."""
        if not self.step.mode.rehearsals:
            return
        name = next(name for name in self.step.names if len(self.corpora[name]))
        first = np.zeros(1, dtype=np.int64)
        self.step.rehearse(collate([self.corpora[name]], first.astype(np.int32), first, self.model.symbols.pad))

    def _draw_interval(self) -> Loader:
        """Draw the samples of the current interval; a resumed run draws the same ones."""
        at, batches = self.at, self.config.batches
        if at.shares is None:
            at.shares = self.groups.shares(self.balancer.mixture.sample, self.store.sizes)
        if at.interval_updates is not None:
            return self._draw_updates(at.interval_updates, at.shares)
        if batches.interval_tokens is not None:
            return self._draw_pairs(self._pairs_of(batches.interval_tokens, at.shares), at.shares)
        return self._draw_pairs(batches.interval_pairs, at.shares)

    def _draw_updates(self, updates: int, shares: dict[str, float]) -> Loader:
        """Draw as many pairs as fill this many updates; by default, not more than the data have."""
        batches = self.config.batches
        most = sum(self.store.sizes.values()) if batches.interval_updates is None else None
        wanted = updates * batches.micro_batches
        guess = self._pairs_of(wanted * batches.tokens_per_batch, shares)
        drawn = cache(partial(self._draw_pairs, shares=shares))
        return drawn(fit(wanted, guess, lambda pairs: drawn(pairs).plan.batches, most))

    def _draw_pairs(self, pairs: int | None, shares: dict[str, float]) -> Loader:
        """Draw this many pairs; None: as many as the data have, or as the sampling rule determines."""
        at, batches = self.at, self.config.batches
        interval = draw(
            self.store.sizes,
            shares,
            seed=self.config.seed,
            interval=at.interval,
            drawn_before=at.drawn_before,
            **{**self.config.draw_options, "pairs": pairs},
        )
        return load(
            self.corpora,
            interval,
            budget=batches.tokens_per_batch,
            pad=self.model.symbols.pad,
            micro_batches=batches.micro_batches,
            rank=self.processes.rank,
            world=self.processes.world,
        )

    def _pairs_of(self, tokens: int, shares: dict[str, float]) -> int:
        """The number of pairs of this mixture that have `tokens` target tokens on average."""
        sizes, totals = self.store.sizes, self.store.target_tokens
        return max(1, round(tokens / sum(share * totals[name] / sizes[name] for name, share in shares.items())))

    def _update(self, loader: Loader, update: int, batches: list[Batch]) -> None:
        at = self.at
        if update == 0:
            self.record.interval(at, loader, self.balancer.q)
        rate = self.rate(at.step)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        tokens = loader.plan.target_tokens_in(update)
        seen, norm = self.step.train(at.step + 1, batches, tokens, self.balancer, self.groups)
        at.step, at.update, at.tokens = at.step + 1, update + 1, at.tokens + tokens
        at.since_log, at.in_interval = at.since_log + seen, at.in_interval + seen
        self._observe(seen, "train")
        self._probe_gradients()
        total = self._total_updates(loader)
        self.record.update(at, self.balancer, total=total, loss=seen.mean, rate=rate, norm=norm)

    def _asked_to_stop(self, request: StopRequest) -> bool:
        """True on all processes if any process was asked to stop, so all stop after the same update."""
        return bool(self.processes.sum(torch.tensor(float(request.asked))))

    def _between_updates(self) -> None:
        """Validate and save if due."""
        every = self.settings.validate_every
        if every is not None and self.at.step % every == 0:
            self._validate()
        self.checkpointer.save(Moment.UPDATE, self.at, self._snapshot)

    def _end_interval(self, interval: Interval) -> None:
        """Validate, update the mixture, save; at the end of a short interval, only what is due at this update."""
        at = self.at
        is_short = self._is_short(interval)
        if self._validates_at_interval_end(is_short):
            self._validate()
        for name, pairs in interval.counts.items():
            at.drawn_before[name] += pairs
        losses = self.balancer.losses  # some strategies reset them in `update`
        changed = self.balancer.update(self.groups.sum(interval.counts))
        self.record.balance(at, interval, self.balancer, losses, changed)
        at.interval, at.update, at.shares, at.in_interval = at.interval + 1, 0, None, at.in_interval.cleared()
        self.checkpointer.save(Moment.UPDATE if is_short else Moment.INTERVAL, at, self._snapshot)

    def _validates_at_interval_end(self, is_short: bool) -> bool:
        every = self.settings.validate_every
        if every is not None and self.at.step % every == 0:
            return True
        return self.balancer.needs.validation_losses or (every is None and not is_short)

    def _is_short(self, interval: Interval) -> bool:
        """Whether this is an interval of a strategy that needs many short ones, and no pass over the data ends in it.

        A pass ends where as many pairs have been drawn as the data have, twice as many, and so on.
        """
        if self.at.interval_updates is None or not self.config.balance.description.needs_short_intervals:
            return False
        size, before = sum(self.store.sizes.values()), sum(self.at.drawn_before.values())
        return (before + len(interval)) // size == before // size

    def _over(self) -> str | None:
        """The reason why training is complete; None if it is not."""
        at, settings = self.at, self.settings
        if at.step >= settings.updates:
            return "updates"
        if settings.intervals is not None and at.interval >= settings.intervals:
            return "intervals"
        if settings.patience is not None and at.disappointments >= settings.patience:
            return "patience"
        return None

    def _finish(self, reason: str) -> None:
        if reason == "stopped":
            self.checkpointer.save(Moment.STOP, self.at, self._snapshot)
        else:
            self._validate()
            self.checkpointer.save(Moment.END, self.at, self._snapshot)
            if self.settings.average is not None:
                self._average(self.settings.average)
        self.record.done(self.at, reason, self.checkpointer.best())

    # ---------------------------------------------------------------------------------------------- observations

    def _observe(self, seen: Observed, split: Split) -> None:
        """Pass loss sums and counts per group to the balancer, in the unit it uses.

        A corpus with a name of its own has no validation text of its own: that of its direction counts.
        """
        signal = self.balancer.needs.losses
        losses, counts = seen.by_direction(self.step.names, "token" if signal is None else signal.unit)
        if split == "valid":
            losses, counts = ({name: each[whole_direction(name)] for name in each} for each in (losses, counts))
        self.balancer.observe(self.groups.sum(losses), self.groups.sum(counts), split)

    def _probe_gradients(self) -> None:
        """Compare gradients after the first update and then every `probe.every` updates, if the strategy uses them."""
        probe, step = self.balancer.needs.gradients, self.at.step
        if probe is None or not (step == 1 or step % probe.every == 0):
            return
        started = monotonic()
        cosines = mean_cosines(self.step, step, probe, self.corpora, self.validator.corpora, self.groups)
        self.balancer.reward(cosines)
        self.record.probe(step, self.balancer, cosines, monotonic() - started)

    def _validate(self) -> None:
        """Validate, unless there is no validation text or this model has been validated already."""
        at = self.at
        if not self.validator.names or at.validated == at.step:
            return
        started = monotonic()
        result = self.validator.validate()
        self.step.check_losses(at.step, result.seen.losses, "the validation loss")
        self._observe(result.seen, "valid")
        at.validated, at.score = at.step, result.score
        is_best = at.best_score is None or result.score < at.best_score
        if is_best:
            at.best_score = result.score
        at.disappointments = 0 if is_best else at.disappointments + 1
        self.record.validation(at, result, best=is_best, seconds=monotonic() - started)

    def _total_updates(self, loader: Loader) -> int:
        """The total number of updates; an estimate if `train.intervals` limits the run."""
        if self.settings.intervals is None:
            return self.settings.updates
        before = self.at.step - self.at.update
        return min(self.settings.updates, before + (self.settings.intervals - self.at.interval) * len(loader))

    def _seconds_of_an_update(self, loader: Loader) -> float:
        """Estimate the seconds per update from a gradient, computed twice; the first time is warm-up.

        On a CPU a quarter of a batch is enough; on a GPU it would take almost as long as the whole.
        """
        batches = loader.update(0)
        sentences = len(batches[0].direction)
        chosen = -(-sentences // 4) if self.processes.device.type == "cpu" else sentences
        part = batches[0].first(chosen)
        for _ in range(2):
            started = monotonic()
            self.step.gradient(0, part)[0].item()  # wait for the GPU
        return (monotonic() - started) * sentences / chosen * len(batches)

    # ----------------------------------------------------------------------------------------------- checkpoints

    def _snapshot(self) -> Snapshot:
        """What a checkpoint stores besides the position."""
        return Snapshot(
            whole_weights(self.model),
            optimizer_tensors(self.optimizer, self.model),
            {
                "balancer": self.balancer.state_dict(),
                "record": self.record.state(),
                "scaler": self.step.scaler.state_dict(),
                **self._model_state(),
            },
        )

    def _model_state(self) -> dict[str, Any]:
        pretrained = {} if self.init is None else {"init": self.init}
        store = {"store": self.store.fingerprint, "vocabulary": self.store.vocabulary_hashes}
        return {**self.model.description(), **store, **pretrained}

    def _restore(self) -> bool:
        """Resume from the newest intact checkpoint; False if there is none yet."""
        newest = self.checkpointer.latest()
        if newest is None:
            return False
        found, content = newest
        state = content.state
        refuse_invalid(state, found, self.step.names)
        if state["store"] != self.store.fingerprint:
            raise RunError(
                f"{self.store.folder}: the content of the store has changed since this run started, so its batches "
                "cannot be reproduced; start a new run with --out"
            )
        if state.get("init") != self.init:
            raise RunError(
                f"{self.config.model.init}: the checkpoint in model.init has changed since this run started; restore "
                "it, or start a new run with --out"
            )
        refuse_misfit(self.model, content.model, found.folder)
        load_weights(self.model, content.model)
        load_optimizer_tensors(self.optimizer, self.model, content.optimizer)
        if state["scaler"] and self.step.scaler.is_enabled():
            self.step.scaler.load_state_dict(state["scaler"])
        self.balancer.load_state_dict(state["balancer"])
        self.at = self.checkpointer.resume(content)
        self.record.restore(state["record"])
        self.record.checkpoint(found)  # its event was written after the log size was stored
        return True

    def _average(self, count: int) -> None:
        """Average the last `count` regular checkpoints, validate the result and save it."""
        chosen = self.checkpointer.last_regular(count)
        averaged, own = average(chosen), {name: weight.clone() for name, weight in self.model.state_dict().items()}
        load_weights(self.model, averaged)
        result = self.validator.validate() if self.validator.names else None
        self.model.load_state_dict(own)
        score, steps = None if result is None else result.score, [each.step for each in chosen]
        self.checkpointer.save_average(self.at.step, averaged, {**self._model_state(), "steps": steps}, score)
        self.record.average(self.at.step, steps, result, score)
        self.processes.wait()
