"""The only training loop: draw an interval, do its updates, validate, balance, save; and again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

import torch

from evenglot import __version__
from evenglot.balance import Balancer
from evenglot.batches.draw import Interval, draw
from evenglot.batches.load import Batch, Loader, load
from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.corpus.vocabulary import PAD, piece_characters
from evenglot.directions import shares_by_direction
from evenglot.training import checkpoint
from evenglot.training.display import Display
from evenglot.training.log import Log, read_log
from evenglot.training.optimizer import create_optimizer, learning_rate, load_optimizer_tensors, optimizer_tensors
from evenglot.training.parallel import Processes
from evenglot.training.probe import mean_cosines
from evenglot.training.run import Run, RunError, create_model
from evenglot.training.step import Observed, Step, TrainingError
from evenglot.training.trackers import trackers
from evenglot.training.validation import Validation, Validator

OVERFIT = 1.03  # a validation loss so much above its lowest, while training loss falls, is worth a warning


@dataclass
class Position:
    """Where a run stands: what a checkpoint keeps beside tensors and the balancer's state. Plain JSON."""

    step: int = 0  # updates done
    interval: int = 0  # intervals done
    update: int = 0  # updates done in the running interval
    shares: dict[str, float] | None = None  # from which it was drawn; None: it has not been drawn yet
    drawn_before: dict[str, int] = field(default_factory=dict)  # pairs of each direction in earlier intervals
    tokens: int = 0  # target tokens seen
    seconds: float = 0.0  # spent so far
    since_log: list[list[float]] = field(default_factory=list)  # what was observed since the last `step` event
    in_interval: list[list[float]] = field(default_factory=list)  # and in the running interval
    validated: int = -1  # the step of the last validation ...
    score: float | None = None  # ... and its result
    best_step: int | None = None
    best_score: float | None = None
    disappointments: int = 0  # validations since the best
    lowest: dict[str, float] = field(default_factory=dict)  # validation loss of each direction
    train_loss: dict[str, float | None] = field(default_factory=dict)  # at the last validation
    warned: list[str] = field(default_factory=list)


class Training:
    """A run in memory. `run` goes on from wherever it stands until it is over or is asked to stop."""

    def __init__(
        self, config: Config, run: Run, store: Store, balancer: Balancer, processes: Processes, *, resume: bool = False
    ) -> None:
        self.config, self.home, self.store, self.processes = config, run, store, processes
        self.settings, self.balancer = config.train, balancer
        self.names = sorted(store.directions)
        self.groups = config.data.groups
        self.model = create_model(config, store).to(processes.device)
        self.optimizer = create_optimizer(self.model, self.settings)
        self.rate = learning_rate(self.settings)
        self.step = Step(
            self.model,
            self.optimizer,
            processes,
            characters=torch.from_numpy(piece_characters(store.vocabulary("target"))),
            names=self.names,
            smoothing=self.settings.label_smoothing,
            clip=self.settings.clip,
            seed=config.seed,
        )
        self.corpora = {name: store.corpus(name, "train") for name in self.names}
        self.validator = Validator(self.step, store, self.names, config.batches.tokens_per_batch, self.settings)
        self.at = Position(drawn_before=dict.fromkeys(self.names, 0))
        self.stopped = False  # as agreed by all processes
        self._stop_asked = False
        self._started = self._since = monotonic()
        self._seconds_before = 0.0
        self._seconds_per_update: float | None = None
        self.display = Display() if processes.is_first else None
        self.log = Log(run.log_file if processes.is_first else None)
        self.resumed = resume and self._restore()
        if not self.resumed:
            self.log.rewind(0)
        self._add_readers()

    # ------------------------------------------------------------------------------------------------- the loop

    def run(self) -> str:
        """Train until the end; why was it the end?"""
        with self._signals():
            self._announce(self._draw_interval())
            while (reason := self._over()) is None:
                loader = self._draw_interval()
                for update, batches in loader.iterate(self.at.update):
                    self._update(loader, update, batches)
                    if self._over() is not None:
                        break
                    if update + 1 < len(loader):
                        self._between_updates()
                if self.at.update == len(loader) and not self.stopped:
                    self._end_interval(loader.interval)
            self._finish(reason)
        return reason

    def _draw_interval(self) -> Loader:
        """Draw the running interval; a resumed run draws the same again."""
        if self.at.shares is None:
            self.at.shares = shares_by_direction(self.balancer.mixture.sample, self.groups, self.store.sizes)
            self.at.in_interval = []
        options = dict(self.config.draw_options)
        if self.config.batches.interval_tokens is not None:
            options["pairs"] = self._pairs_of(self.config.batches.interval_tokens)
        interval = draw(
            self.store.sizes,
            self.at.shares,
            seed=self.config.seed,
            interval=self.at.interval,
            drawn_before=self.at.drawn_before,
            **options,
        )
        return load(
            self.corpora,
            interval,
            budget=self.config.batches.tokens_per_batch,
            pad=PAD,
            micro_batches=self.config.batches.micro_batches,
            rank=self.processes.rank,
            world=self.processes.world,
        )

    def _pairs_of(self, tokens: int) -> int:
        """How many pairs of the running mixture have so many target tokens."""
        sizes, lengths = self.store.sizes, self.store.target_tokens
        mean = sum(share * lengths[name] / sizes[name] for name, share in (self.at.shares or {}).items())
        return max(1, round(tokens / mean))

    def _update(self, loader: Loader, update: int, batches: list[Batch]) -> None:
        if update == 0:
            self._log_interval(loader)
        rate = self.rate(self.at.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        tokens = loader.plan.target_tokens_in(update)
        with self._explained(batches):
            seen, norm = self.step.train(self.at.step + 1, batches, tokens, self.balancer, self.groups)
        self.at.step, self.at.update, self.at.tokens = self.at.step + 1, update + 1, self.at.tokens + tokens
        self._observe(seen, "train")
        self._probe()
        self.at.since_log = (_observed(self.at.since_log, len(self.names)) + seen).rows()
        self.at.in_interval = (_observed(self.at.in_interval, len(self.names)) + seen).rows()
        self.stopped = bool(self.processes.sum(torch.tensor(float(self._stop_asked))))
        if self.display is not None:
            self.display.update(self.at.step, self._total_updates(loader), loss=seen.mean, learning_rate=rate)
        if self.at.step % self.settings.log_every == 0:
            self._log_step(loader, rate, norm)

    def _between_updates(self) -> None:
        every, step = self.settings, self.at.step
        if every.validate_every is not None and step % every.validate_every == 0:
            self._validate()
            self._save()
        elif every.save_every is not None and step % every.save_every == 0:
            self._save()

    def _end_interval(self, interval: Interval) -> None:
        """Validate, let the adversary answer, save."""
        listens = self.balancer.signal is not None and self.balancer.signal.split == "valid"
        if self.settings.validate_every is None or listens or self.at.step % self.settings.validate_every == 0:
            self._validate()
        by_group = dict.fromkeys(self.groups.values(), 0)
        for name, pairs in interval.counts.items():
            by_group[self.groups[name]] += pairs
            self.at.drawn_before[name] += pairs
        changed = self.balancer.update(by_group)
        self._log_balance(interval, changed)
        self.at.interval, self.at.update, self.at.shares = self.at.interval + 1, 0, None
        self._save()

    def _over(self) -> str | None:
        """Why training ends here, if it does."""
        settings = self.settings
        if self.stopped:
            return "stopped"
        if self.at.step >= settings.updates:
            return "updates"
        if settings.intervals is not None and self.at.interval >= settings.intervals:
            return "intervals"
        if settings.patience is not None and self.at.disappointments >= settings.patience:
            return "patience"
        return None

    def _finish(self, reason: str) -> None:
        if reason != "stopped" and self.at.validated != self.at.step:
            self._validate()
        saved = [each.step for each in checkpoint.checkpoints(self.home.checkpoints)]
        if not saved or saved[-1] != self.at.step:
            self._save()
        if reason != "stopped" and self.settings.average is not None:
            self._average(self.settings.average)
        best = self.home.best()
        self.log.write(
            "done",
            self.at.step,
            reason=reason,
            seconds=self._seconds(),
            tokens=self.at.tokens,
            best_step=best.step,
            best_score=best.score,
            best_folder=str(best.folder.relative_to(self.home.folder)),
        )

    # --------------------------------------------------------------------------------------------- observations

    def _observe(self, seen: Observed, split: Any) -> None:
        """Hand the balancer sums and counts by group, in the unit that it wants."""
        signal_ = self.balancer.signal
        counts = seen.characters if signal_ is not None and signal_.unit == "character" else seen.tokens
        sums, numbers = (dict.fromkeys(self.groups.values(), 0.0) for _ in range(2))
        for name, loss, count in zip(self.names, seen.losses.tolist(), counts.tolist(), strict=True):
            sums[self.groups[name]] += loss
            numbers[self.groups[name]] += count
        self.balancer.observe(sums, numbers, split)

    def _probe(self) -> None:
        probe = self.balancer.needs_gradients
        if probe is None or (self.at.step % probe.every and self.at.step != 1):
            return
        started = monotonic()
        cosines = mean_cosines(self.step, self.at.step, probe, self.corpora, self.validator.corpora, self.groups)
        self.balancer.observe_gradients(cosines)
        self.log.write(
            "probe",
            self.at.step,
            seconds=monotonic() - started,
            cosines={group: row["all"] for group, row in cosines.items()},
            mixture=self._by_direction(self.balancer.q),
        )

    def _validate(self) -> None:
        if not self.validator.names or self.at.validated == self.at.step:
            return
        started = monotonic()
        result = self.validator.validate()
        self._observe(result.seen, "valid")
        at = self.at
        at.validated, at.score = at.step, float(getattr(result, self.settings.select))
        is_best = at.best_score is None or at.score < at.best_score
        at.disappointments = 0 if is_best else at.disappointments + 1
        if is_best:
            at.best_step, at.best_score = at.step, at.score
        self.log.write(
            "validation",
            at.step,
            loss=result.loss,
            loss_per_character=result.loss_per_character,
            **({"chrf": result.chrf} if result.chrf else {}),
            pooled=result.pooled,
            macro=result.macro,
            worst=result.worst,
            score=at.score,
            best=is_best,
            seconds=monotonic() - started,
        )
        self._warn_of_overfitting(result)

    def _warn_of_overfitting(self, result: Validation) -> None:
        """The gap opens: training still gets better, validation has got worse."""
        train = _observed(self.at.in_interval, len(self.names)).means(self.names)
        for name, loss in result.loss.items():
            now, before = train[name], self.at.train_loss.get(name)
            lowest = min(loss, self.at.lowest.get(name, loss))
            if loss > OVERFIT * lowest and now is not None and before is not None and now < before:
                passes = self.at.drawn_before[name] / self.store.sizes[name]
                self._warn(
                    f"{name} overfits",
                    f"{name}: validation loss {loss:.3f} has risen from {lowest:.3f} while training loss falls "
                    f"({now:.3f}), after {passes:.0f} passes or more; show it less often (balance.max_ratio, a lower "
                    "rho or tau), or use more dropout",
                )
            self.at.lowest[name] = lowest
        self.at.train_loss = train

    # ------------------------------------------------------------------------------------------------- the record

    def _announce(self, loader: Loader) -> None:
        """Say what will happen, before the first update."""
        if self.resumed:
            self.log.write("resume", self.at.step, processes=self.processes.world, threads=self.processes.threads)
            return
        self._seconds_per_update = self._time_an_update(loader)
        total, per_interval = self._total_updates(loader), loader.interval.counts
        sizes, tokens = self.store.sizes, self.store.target_tokens
        intervals = total / len(loader)
        shares = self.at.shares or {}
        directions = {
            name: {
                "pairs": sizes[name],
                "target_tokens": tokens[name],
                "p": sizes[name] / sum(sizes.values()),
                "q": shares[name],
                "passes_per_interval": per_interval[name] / sizes[name],
                "total_passes": intervals * per_interval[name] / sizes[name],
            }
            for name in self.names
        }
        self.log.write(
            "config",
            0,
            config=self.config.model_dump(mode="json", by_alias=True),
            evenglot=__version__,
            strategy=self.config.balance.strategy,
            directions=directions,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            device=str(self.processes.device),
            precision=self.processes.precision,
            processes=self.processes.world,
            threads=self.processes.threads,
            tokens_per_update=self.config.batches.tokens_per_update,
            updates=total,
            updates_per_interval=len(loader),
            seconds_estimated=self._seconds_per_update * total,
        )

    def _time_an_update(self, loader: Loader) -> float:
        """Seconds, from gradients of one batch that are thrown away; the first of two warms up."""
        batch = loader.update(0)[0]
        with self._explained([batch]):
            self.step.gradient(0, batch)
            started = monotonic()
            self.step.gradient(0, batch)
        here = torch.tensor((monotonic() - started) * len(loader.update(0)), dtype=torch.float64)
        return float(self.processes.sum(here)) / self.processes.world

    def _total_updates(self, loader: Loader) -> int:
        """How many there will be; an estimate, where the run is to have so many intervals."""
        if self.settings.intervals is None:
            return self.settings.updates
        before = self.at.step - self.at.update
        left = self.settings.intervals - self.at.interval
        return min(self.settings.updates, before + left * len(loader))

    def _log_interval(self, loader: Loader) -> None:
        interval = loader.interval
        self.log.write(
            "interval",
            self.at.step,
            interval=self.at.interval,
            mixture=self.at.shares,
            pairs=interval.counts,
            updates=len(loader),
            tokens=int(loader.plan.target_tokens.sum()),
            padding=loader.plan.padding(),
        )
        for name, pairs in interval.counts.items():
            passes = (self.at.drawn_before[name] + pairs) / self.store.sizes[name]
            if passes > self.settings.warn_passes:
                self._warn(
                    f"{name} passes",
                    f"{name}: its {self.store.sizes[name]:,} pairs will have been shown {passes:.0f} times after this "
                    "interval; watch its validation loss, or limit it with balance.max_ratio",
                )

    def _log_step(self, loader: Loader, rate: float, norm: float) -> None:
        recent = _observed(self.at.since_log, len(self.names))
        now = monotonic()
        moving = {"mixture": self._by_direction(self.balancer.q)} if self.balancer.cadence == "step" else {}
        self.log.write(
            "step",
            self.at.step,
            loss=recent.mean,
            losses=recent.means(self.names),
            learning_rate=rate,
            gradient_norm=norm,
            tokens_per_second=float(recent.tokens.sum()) / (now - self._since),
            tokens=self.at.tokens,
            seconds=self._seconds(),
            interval=self.at.interval,
            total_updates=self._total_updates(loader),
            **moving,
        )
        self.at.since_log, self._since = [], now

    def _log_balance(self, interval: Interval, changed: bool) -> None:
        """What the losses were, what was shown, and what will be shown next; by direction."""
        means = _observed(self.at.in_interval, len(self.names)).means(self.names)
        running = getattr(self.balancer, "losses", None)
        baseline = getattr(self.balancer, "baseline", None)
        by_group = self.balancer.groups.keyed(baseline) if baseline is not None else {}
        self.log.write(
            "balance",
            self.at.step,
            interval=self.at.interval,
            mixture=shares_by_direction(self.balancer.mixture.sample, self.groups, self.store.sizes),
            target=self._by_direction(self.balancer.q),
            losses={n: running[self.groups[n]] for n in self.names} if running is not None else means,
            interval_losses=means,
            baseline={name: by_group.get(self.groups[name]) for name in self.names},
            realised={name: pairs / len(interval) for name, pairs in interval.counts.items()},
            passes={name: self.at.drawn_before[name] / self.store.sizes[name] for name in self.names},
            changed=changed,
        )

    def _by_direction(self, q: dict[str, float]) -> dict[str, float]:
        return shares_by_direction(q, self.groups, self.store.sizes)

    def _warn(self, key: str, message: str) -> None:
        """Once in a run."""
        if key not in self.at.warned:
            self.at.warned.append(key)
            self.log.write("warning", self.at.step, message=message)

    def _seconds(self) -> float:
        return self._seconds_before + monotonic() - self._started

    def _add_readers(self) -> None:
        if self.display is None:
            return
        kept = read_log(self.home.log_file)
        self.display.recall(kept)
        self.log.readers += [self.display, *trackers(self.settings.trackers, self.home.folder, self.at.step, kept)]

    # ----------------------------------------------------------------------------------------------- checkpoints

    def _save(self) -> None:
        """Write a checkpoint; the first process does it for all."""
        if self.processes.is_first:
            self.at.seconds = self._seconds()
            score = self.at.score if self.at.validated == self.at.step else None
            self.log.sync()
            saved = checkpoint.save(
                self.home.checkpoints,
                self.at.step,
                model=self.model.state_dict(),
                optimizer=optimizer_tensors(self.optimizer, self.model),
                state={
                    "position": asdict(self.at),
                    "balancer": self.balancer.state_dict(),
                    "shape": asdict(self.model.shape),
                    "scaler": self.step.scaler.state_dict(),
                    "store": self.store.fingerprint,
                    "log": self.log.size,
                },
                score=score,
            )
            self._log_checkpoint(saved)
            checkpoint.prune(self.home.checkpoints, self.settings.keep_last, self.settings.keep_best)
        self.processes.wait()

    def _log_checkpoint(self, saved: checkpoint.Checkpoint) -> None:
        folder = str(saved.folder.relative_to(self.home.folder))
        self.log.write("checkpoint", saved.step, folder=folder, score=saved.score)

    def _restore(self) -> bool:
        """Go on from the newest checkpoint that is intact; False if there is none yet."""
        newest = checkpoint.latest(self.home.checkpoints, self.display.note if self.display else lambda _: None)
        if newest is None:
            return False
        found, content = newest
        state = content.state
        if state["store"] != self.store.fingerprint:
            raise RunError(
                f"{self.store.folder}: the store was made anew since this run began, so its batches cannot be "
                "continued; start a new run with --out"
            )
        self.model.load_state_dict(content.model)
        load_optimizer_tensors(self.optimizer, self.model, content.optimizer)
        self.step.scaler.load_state_dict(state["scaler"])
        self.balancer.load_state_dict(state["balancer"])
        self.at = Position(**state["position"])
        self._seconds_before = self.at.seconds
        self.log.rewind(state["log"])
        self._log_checkpoint(found)  # it was forgotten with what came after
        return True

    def _average(self, count: int) -> None:
        """Average the last checkpoints, validate the result, and put it beside them."""
        chosen = checkpoint.checkpoints(self.home.checkpoints)[-count:]
        weights = {name: value.clone() for name, value in self.model.state_dict().items()}
        averaged = checkpoint.average(chosen)
        self.model.load_state_dict(averaged)
        score = None
        if self.validator.names:
            result = self.validator.validate()
            score = float(getattr(result, self.settings.select))
            self.log.write("average", self.at.step, steps=[each.step for each in chosen], score=score, loss=result.loss)
        if self.processes.is_first:
            checkpoint.save(
                self.home.checkpoints,
                self.at.step,
                model=averaged,
                optimizer=None,
                state={"shape": asdict(self.model.shape), "steps": [each.step for each in chosen]},
                score=score,
                name="average",
            )
        self.model.load_state_dict(weights)
        self.processes.wait()

    # ------------------------------------------------------------------------------------------- what may go wrong

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT (Ctrl-C) and SIGTERM: finish the update, save, end. The second one ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, frame: object) -> None:
            self._stop_asked = True
            signal.signal(number, signal.SIG_DFL)
            if self.display is not None:
                self.display.note("Stopping after this update; once more to stop at once.")

        for number in before:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def _explained(self, batches: list[Batch]) -> Iterator[None]:
        """Running out of memory is a matter of the budget: say which to try."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not _is_memory_error(error):
                raise
            largest = max((batch.source.numel() + batch.target.numel() for batch in batches), default=0)
            budget = self.config.batches.tokens_per_batch
            raise TrainingError(
                f"update {self.at.step + 1}: out of memory on a batch of {largest:,} tokens, both sides counted; try "
                f"--set batches.tokens_per_batch={max(budget // 2, self.config.clean.max_pieces)} (an update keeps "
                "its size, in more batches)"
            ) from error

    def close(self) -> None:
        """Close the log and its readers."""
        self.log.close()


def _observed(rows: list[list[float]], directions: int) -> Observed:
    return Observed.of(rows) if rows else Observed.nothing(directions)


def _is_memory_error(error: BaseException) -> bool:
    out_of_memory = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return out_of_memory or "allocate memory" in str(error) or "out of memory" in str(error).lower()
