"""The only training loop: draw an interval, do its updates, validate, balance, save; and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic

import torch

from evenglot.balance import Balancer
from evenglot.balance.balancer import Split
from evenglot.batches.draw import Interval, draw
from evenglot.batches.load import Batch, Loader, load
from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.directions import SIDES, shares_by_direction
from evenglot.runs import checkpoint
from evenglot.runs.run import Run, RunError
from evenglot.symbols import PAD
from evenglot.training.model import create_model
from evenglot.training.optimizer import create_optimizer, learning_rate, load_optimizer_tensors, optimizer_tensors
from evenglot.training.parallel import Processes
from evenglot.training.position import Position
from evenglot.training.probe import mean_cosines
from evenglot.training.record import Record
from evenglot.training.signals import StopRequest, stop_requests
from evenglot.training.step import Observed, OutOfMemoryError, Step
from evenglot.training.validation import Validator


class Training:
    """A run in memory. `run` goes on from wherever it stands until it is over or is asked to stop."""

    def __init__(self, config: Config, run: Run, store: Store, balancer: Balancer, processes: Processes) -> None:
        self.config, self.settings = config, config.train
        self.home, self.store, self.balancer, self.processes = run, store, balancer, processes
        self.groups = config.data.groups
        self.model = create_model(config, store).to(processes.device)
        self.optimizer = create_optimizer(self.model, self.settings)
        self.rate = learning_rate(self.settings)
        self.step = Step.of(config, store, self.model, self.optimizer, processes)
        self.corpora = {name: store.corpus(name, "train") for name in self.step.names}
        self.validator = Validator(self.step, store, config.batches.tokens_per_batch, self.settings)
        self.record = Record(config, run, store, processes)
        self.at = Position.start(self.step.names)
        self.stopped = False  # as agreed by all processes
        self.saved = (-1, -1)  # the step, and the step of the last validation, of the newest checkpoint
        self.stop_steps: list[int] = []  # of the checkpoint from which the run was resumed, if a stop was its reason

    def run(self, resume: bool = False) -> str:
        """Train until the end; why was it the end?"""
        with stop_requests() as request, self._memory_errors_explained():
            self._begin(resume)
            reason = None
            while reason is None:
                reason = self._train_interval(self._draw_interval(), request)
            self._finish(reason)
        return reason

    def _train_interval(self, loader: Loader, request: StopRequest) -> str | None:
        """Go through an interval, from where the run stands in it; why is training over, if it is?"""
        if 0 < self.at.update < len(loader):
            self._between_updates()  # a stop may have come first
        for update, batches in loader.iterate(self.at.update):
            if (reason := self._over()) is not None:
                return reason
            self._update(loader, update, batches)
            self._agree_on_stopping(request)
            if update + 1 < len(loader) and not self.stopped:
                self._between_updates()
        if self.at.update == len(loader) and not self.stopped:
            self._end_interval(loader.interval)
        return self._over()

    # ------------------------------------------------------------------------------------------ parts of the loop

    def _begin(self, resume: bool) -> None:
        """Go on from a checkpoint, if there is one; else say what will happen."""
        resumed = resume and self._restore()
        if not resumed:
            self.record.log.rewind(0)  # of a run that was killed before its first checkpoint
        self.record.begin(self.at.step)
        if resumed:
            self.record.resume(self.at.step)
        if self.processes.is_first:
            self.home.begin(self.config, {side: self.store.vocabulary_file(side) for side in SIDES})
        if resumed:
            return
        if resume:
            self.record.say(f"There is no checkpoint in {self.home.folder} yet: this is the beginning.")
        loader = self._draw_interval()
        updates = self._total_updates(loader)
        self.record.start(
            loader,
            self.at.shares or {},
            updates=updates,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            each=self._seconds_of_an_update(loader),
        )
        self.record.doubts(self.balancer, loader, updates)

    def _draw_interval(self) -> Loader:
        """Draw the running interval; a resumed run draws the same again."""
        at, batches = self.at, self.config.batches
        if at.shares is None:
            at.shares = shares_by_direction(self.balancer.mixture.sample, self.groups, self.store.sizes)
        options = dict(self.config.draw_options)
        if batches.interval_tokens is not None:
            options["pairs"] = self._pairs_of(batches.interval_tokens, at.shares)
        interval = draw(
            self.store.sizes,
            at.shares,
            seed=self.config.seed,
            interval=at.interval,
            drawn_before=at.drawn_before,
            **options,
        )
        return load(
            self.corpora,
            interval,
            budget=batches.tokens_per_batch,
            pad=PAD,
            micro_batches=batches.micro_batches,
            rank=self.processes.rank,
            world=self.processes.world,
        )

    def _pairs_of(self, tokens: int, shares: dict[str, float]) -> int:
        """How many pairs of this mixture have so many target tokens."""
        sizes, totals = self.store.sizes, self.store.target_tokens
        return max(1, round(tokens / sum(share * totals[name] / sizes[name] for name, share in shares.items())))

    def _update(self, loader: Loader, update: int, batches: list[Batch]) -> None:
        at = self.at
        if update == 0:
            self.record.interval(at, loader, self.balancer.q)
        rate = self.rate(at.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        tokens = loader.plan.target_tokens_in(update)
        seen, norm = self.step.train(at.step + 1, batches, tokens, self.balancer, self.groups)
        at.step, at.update, at.tokens = at.step + 1, update + 1, at.tokens + tokens
        at.since_log, at.in_interval = at.since_log + seen, at.in_interval + seen
        self._observe(seen, "train")
        self._probe_gradients()
        total = self._total_updates(loader)
        self.record.update(at, self.balancer, total=total, loss=seen.mean, rate=rate, norm=norm)

    def _agree_on_stopping(self, request: StopRequest) -> None:
        """If one process was asked to stop, all stop after the same update."""
        self.stopped = bool(self.processes.sum(torch.tensor(float(request.asked))))

    def _between_updates(self) -> None:
        """Validate and save, if it is time and has not been done."""
        every, at = self.settings, self.at
        if every.validate_every is not None and at.step % every.validate_every == 0:
            self._validate()
        is_time = every.save_every is not None and at.step % every.save_every == 0
        if (is_time or at.validated == at.step) and (at.step not in at.regular or self.saved[1] != at.validated):
            self._save()

    def _end_interval(self, interval: Interval) -> None:
        """Validate, let the adversary answer, save."""
        at, every = self.at, self.settings.validate_every
        listens = self.balancer.signal is not None and self.balancer.signal.split == "valid"
        if every is None or listens or at.step % every == 0:
            self._validate()
        by_group = dict.fromkeys(self.groups.values(), 0)
        for name, pairs in interval.counts.items():
            by_group[self.groups[name]] += pairs
            at.drawn_before[name] += pairs
        losses = self.balancer.losses  # some strategies forget them as they answer
        changed = self.balancer.update(by_group)
        self.record.balance(at, interval, self.balancer, losses, changed)
        at.interval, at.update, at.shares, at.in_interval = at.interval + 1, 0, None, at.in_interval.cleared()
        self._save()

    def _over(self) -> str | None:
        """Why training ends here, if it does."""
        at, settings = self.at, self.settings
        if self.stopped:
            return "stopped"
        if at.step >= settings.updates:
            return "updates"
        if settings.intervals is not None and at.interval >= settings.intervals:
            return "intervals"
        if settings.patience is not None and at.disappointments >= settings.patience:
            return "patience"
        return None

    def _finish(self, reason: str) -> None:
        complete = reason != "stopped"
        if complete:
            self._validate()
        if self.saved != (self.at.step, self.at.validated) or (complete and self.at.step not in self.at.regular):
            self._save(regular=complete)
        if complete and self.settings.average is not None:
            self._average(self.settings.average)
        self.record.done(self.at, reason, self.home.best())

    # ---------------------------------------------------------------------------------------------- observations

    def _observe(self, seen: Observed, split: Split) -> None:
        """Hand the balancer sums and counts by group, in the unit that it wants."""
        signal = self.balancer.signal
        counts = seen.characters if signal is not None and signal.unit == "character" else seen.tokens
        sums, numbers = (dict.fromkeys(self.groups.values(), 0.0) for _ in range(2))
        for name, loss, count in zip(self.step.names, seen.losses.tolist(), counts.tolist(), strict=True):
            sums[self.groups[name]] += loss
            numbers[self.groups[name]] += count
        self.balancer.observe(sums, numbers, split)

    def _probe_gradients(self) -> None:
        """For strategies that ask for it: after the first update, and every so many."""
        probe, step = self.balancer.needs_gradients, self.at.step
        if probe is None or (step % probe.every and step != 1):
            return
        started = monotonic()
        cosines = mean_cosines(self.step, step, probe, self.corpora, self.validator.corpora, self.groups)
        self.balancer.reward(cosines)
        self.record.probe(step, self.balancer, cosines, monotonic() - started)

    def _validate(self) -> None:
        """Once for a model, if there is anything to validate on."""
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
        """How many there will be; an estimate, where the run is to have so many intervals."""
        if self.settings.intervals is None:
            return self.settings.updates
        before = self.at.step - self.at.update
        return min(self.settings.updates, before + (self.settings.intervals - self.at.interval) * len(loader))

    def _seconds_of_an_update(self, loader: Loader) -> float:
        """From the gradients of one batch, which are thrown away; the first of two warms up."""
        batches = loader.update(0)
        for _ in range(2):
            started = monotonic()
            self.step.gradient(0, batches[0])[0].item()  # read, or a GPU has only been told what to do
        return (monotonic() - started) * len(batches)

    # ----------------------------------------------------------------------------------------------- checkpoints

    def _save(self, regular: bool = True) -> None:
        """Write a checkpoint; the first process does it for all. One that is not regular, because of a stop, is dropped
        again as soon as there is another: what is kept, and averaged, does not depend on stops.
        """
        at = self.at
        if regular:
            at.regular = [*(step for step in at.regular if step != at.step), at.step][-self.settings.keep_last :]
        if self.processes.is_first:
            saved = checkpoint.save(
                self.home.checkpoints,
                self.at.step,
                model=self.model.state_dict(),
                optimizer=optimizer_tensors(self.optimizer, self.model),
                state={
                    "position": self.at.state(),
                    "balancer": self.balancer.state_dict(),
                    "record": self.record.state(),
                    "scaler": self.step.scaler.state_dict(),
                    "shape": asdict(self.model.shape),
                    "store": self.store.fingerprint,
                },
                score=self.at.score if self.at.validated == self.at.step else None,
            )
            self.record.checkpoint(saved)
            superseded = [step for step in self.stop_steps if step != at.step]
            checkpoint.prune(self.home.checkpoints, self.settings.keep_last, self.settings.keep_best, superseded)
        self.stop_steps = []
        self.saved = (self.at.step, self.at.validated)
        self.processes.wait()

    def _restore(self) -> bool:
        """Go on from the newest checkpoint that is intact; False if there is none yet."""
        newest = checkpoint.latest(self.home.checkpoints, self.record.say)
        self._check_that_all_agree(-1 if newest is None else newest[0].step)
        if newest is None:
            return False
        found, content = newest
        state = content.state
        if state["store"] != self.store.fingerprint:
            raise RunError(
                f"{self.store.folder}: the store has other content than when this run began, so its batches "
                "cannot be continued; start a new run with --out"
            )
        self.model.load_state_dict(content.model)
        load_optimizer_tensors(self.optimizer, self.model, content.optimizer)
        if state["scaler"] and self.step.scaler.is_enabled():
            self.step.scaler.load_state_dict(state["scaler"])
        self.balancer.load_state_dict(state["balancer"])
        self.at = Position.of(state["position"])
        self.saved = (self.at.step, self.at.validated)
        self.record.restore(state["record"])
        self.record.checkpoint(found)  # it was forgotten with what came after
        passed = [each.step for each in checkpoint.checkpoints(self.home.checkpoints) if each.step > self.at.step]
        self.stop_steps = [*passed, *([] if self.at.step in self.at.regular else [self.at.step])]  # passed: damaged
        return True

    def _check_that_all_agree(self, step: int) -> None:
        total = self.processes.sum(torch.tensor(step))
        if int(total) != step * self.processes.world:
            raise RunError(
                f"{self.home.folder}: the processes see different checkpoints in it; use a disk that all share"
            )

    def _average(self, count: int) -> None:
        """Average the last checkpoints, validate the result, and put it beside them."""
        chosen = [each for each in checkpoint.checkpoints(self.home.checkpoints) if each.step in self.at.regular][
            -count:
        ]
        averaged, own = checkpoint.average(chosen), {k: v.clone() for k, v in self.model.state_dict().items()}
        self.model.load_state_dict(averaged)
        result = self.validator.validate() if self.validator.names else None
        self.model.load_state_dict(own)
        score, steps = None if result is None else result.score, [each.step for each in chosen]
        if self.processes.is_first:
            state = {"shape": asdict(self.model.shape), "store": self.store.fingerprint, "steps": steps}
            checkpoint.save(
                self.home.checkpoints,
                self.at.step,
                model=averaged,
                optimizer=None,
                state=state,
                score=score,
                name="average",
            )
        self.record.average(self.at.step, steps, result, score)
        self.processes.wait()

    @contextmanager
    def _memory_errors_explained(self) -> Iterator[None]:
        """Running out of memory is a matter of the budget: say which to try."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not _is_memory_error(error):
                raise
            budget = self.config.batches.tokens_per_batch
            smaller = max(budget // 2, self.config.clean.max_pieces)
            raise OutOfMemoryError(
                f"after update {self.at.step}: out of memory with batches of {budget:,} tokens; try a new run with "
                f"--set batches.tokens_per_batch={smaller} (an update keeps its size, in more batches)"
            ) from error


def _is_memory_error(error: BaseException) -> bool:
    """On a CPU torch raises a plain RuntimeError, which only its text tells from others."""
    said = str(error).lower()
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in said or "out of memory" in said
    )
