"""Writes the events of a run to the event log, the terminal and trackers; on the first process only."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from time import monotonic
from typing import Any

from torch import nn

from evenglot import __version__
from evenglot.balance import Balancer, passes_of_run
from evenglot.batches.draw import Interval
from evenglot.batches.load import Loader
from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.runs.checkpoint import Checkpoint
from evenglot.runs.events import (
    AverageEvent,
    BalanceEvent,
    CheckpointEvent,
    ConfigEvent,
    DirectionFacts,
    DoneEvent,
    IntervalEvent,
    ProbeEvent,
    ResumeEvent,
    StepEvent,
    ValidationEvent,
    WarningEvent,
)
from evenglot.runs.log import Log, read_log
from evenglot.runs.run import Run
from evenglot.training.display import Display
from evenglot.training.parallel import Processes
from evenglot.training.position import Position
from evenglot.training.reference import reference_cost
from evenglot.training.tables import end_table, start_summary, start_table
from evenglot.training.trackers import trackers
from evenglot.training.validation import Validation
from evenglot.training.warnings import against_overfitting, warnings_about
from evenglot.wording import counted, some

VERSIONS = {"python": platform.python_version(), **{name: version(name) for name in ("torch", "sacrebleu", "numpy")}}
OVERFIT = 1.03  # warn if a validation loss exceeds its lowest by this factor while the training loss falls


class Record:
    """Makes the events of a run. Their mappings are keyed by direction, except the cosines (by group)."""

    def __init__(self, config: Config, run: Run, store: Store, processes: Processes, parallel: str = "flat") -> None:
        self.config, self.home, self.store, self.processes = config, run, store, processes
        self.parallel = parallel
        self.names = sorted(store.directions)
        self.groups = config.data.groups
        self.samples_every_step = config.balance.description.samples_every_step
        caps = "max_ratio" in config.balance.options
        self._limit = ", or limit its share with balance.max_ratio" if caps else ""
        self.log = Log(run.log_file if processes.is_first else None)
        self.display = Display() if processes.is_first else None
        self.warned: list[str] = []
        self._lowest: dict[str, float] = {}  # lowest validation loss per direction
        self._train_loss: dict[str, float | None] = {}  # at the last validation
        self._seconds_before, self._started = 0.0, monotonic()
        self._last_step_event = monotonic()

    # ------------------------------------------------------------------------------------------ begin and resume

    def begin(self, step: int) -> None:
        """Attach the terminal and trackers to the log; a resumed run passes them its earlier events."""
        if self.display is not None:
            kept = read_log(self.home.log_file)
            self.display.recall(kept)
            names = self.config.train.trackers
            self.log.readers += [self.display, *trackers(names, self.home.folder, step, kept)]

    def state(self) -> dict[str, Any]:
        """The state that a checkpoint stores."""
        self.log.sync()
        return {
            "log": self.log.size,
            "log_hash": self.log.hash,
            "seconds": self.seconds,
            "seconds_since_log": monotonic() - self._last_step_event,
            "warned": self.warned,
            "lowest": self._lowest,
            "train_loss": self._train_loss,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint and remove later events from the log; those updates will be done again."""
        self.log.rewind(state["log"], state.get("log_hash"))  # None: of an older version
        self._seconds_before, self._started = state["seconds"], monotonic()
        self._last_step_event = monotonic() - state["seconds_since_log"]
        self.warned, self._lowest, self._train_loss = state["warned"], state["lowest"], state["train_loss"]

    @property
    def seconds(self) -> float:
        """Seconds spent on this run so far, including those before resumes."""
        return self._seconds_before + monotonic() - self._started

    @property
    def has_picture(self) -> bool:
        """Is the cursor in the last line of a live picture?"""
        return self.display is not None and self.display.has_picture

    def say(self, text: str) -> None:
        """Print a line on the terminal without logging it."""
        if self.display is not None:
            self.display.note(text)

    def close(self) -> None:
        """Close the log and its readers."""
        self.log.close()

    # ---------------------------------------------------------------------------------------------------- events

    def start(self, loader: Loader, balancer: Balancer, model: nn.Module, *, updates: int, each: float) -> None:
        """Write the `config` event before the first update; `each` is the estimated seconds per update."""
        parameters = sum(parameter.numel() for parameter in model.parameters())
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        sizes, tokens, drawn = self.store.sizes, self.store.target_tokens, loader.interval.counts
        shares, intervals = self._by_direction(balancer.mixture.sample), updates / len(loader)
        passes = {name: drawn[name] / sizes[name] for name in self.names}
        planned = passes_of_run(balancer, sum(drawn.values()) * intervals, intervals)
        total = (
            {name: intervals * passes[name] for name in self.names} if planned is None else self.groups.spread(planned)
        )
        directions = {
            name: DirectionFacts(
                pairs=sizes[name],
                target_tokens=tokens[name],
                p=sizes[name] / sum(sizes.values()),
                q=shares[name],
                passes_per_interval=passes[name],
                total_passes=total[name],
            )
            for name in self.names
        }
        event = self.log.write(
            ConfigEvent(
                step=0,
                config=self.config.model_dump(mode="json", by_alias=True),
                evenglot=__version__,
                versions=VERSIONS,
                strategy=self.config.balance.strategy,
                directions=directions,
                reference=reference_cost(self.config, self.home),
                parameters=parameters,
                trained=trained if trained < parameters else None,
                device=str(self.processes.device),
                precision=self.processes.precision,
                processes=self.processes.world,
                parallel=self.parallel,
                threads=self.processes.threads,
                tokens_per_update=self.config.batches.tokens_per_update,
                updates=updates,
                updates_per_interval=len(loader),
                seconds_estimated=each * updates,
            )
        )
        if self.display is not None:
            self.display.show(start_table(event))
            self.display.note(start_summary(event))

    def resume(self, step: int) -> None:
        """The run resumes."""
        changed = self.home.changes(self.config)
        self.log.write(
            ResumeEvent(
                step=step,
                processes=self.processes.world,
                parallel=self.parallel,
                threads=self.processes.threads,
                changed=sorted(changed),
            )
        )
        if changed:
            self.say(f"changed  {some(self.home.told(changed, self.config))}")

    def warnings(self, balancer: Balancer, loader: Loader, updates: int) -> None:
        """Warn about settings that may be a mistake."""
        for kind, message in warnings_about(self.config, self.store, self.processes.world, balancer, loader, updates):
            self._warn(kind, None, 0, message)

    def interval(self, at: Position, loader: Loader, q: Mapping[str, float]) -> None:
        """An interval begins: `mixture` is sampled; `target` is the strategy's q, which may weight losses instead."""
        self.log.write(
            IntervalEvent(
                step=at.step,
                interval=at.interval,
                mixture=at.shares or {},
                target=self._by_direction(q),
                pairs=loader.interval.counts,
                updates=len(loader),
                tokens=int(loader.plan.target_tokens.sum()),
                padding=loader.plan.padding(),
                lag=len(loader) - 1 if self.samples_every_step else None,
            )
        )
        for name, pairs in loader.interval.counts.items():
            passes = (at.drawn_before[name] + pairs) / self.store.sizes[name]
            if passes > self.config.train.warn_passes:
                self._warn(
                    "passes",
                    name,
                    at.step,
                    f"{name}: its {counted(self.store.sizes[name], 'pair')} will have been sampled {passes:.0f} times "
                    f"by the end of this interval; watch its validation loss{self._limit}",
                )

    def update(self, at: Position, balancer: Balancer, *, total: int, loss: float, rate: float, norm: float) -> None:
        """An update is done; write a `step` event every `train.log_every` updates."""
        if self.display is not None:
            self.display.update(at.step, total, loss=loss, learning_rate=rate)
        if at.step % self.config.train.log_every == 0:
            self.step(at, balancer, total=total, rate=rate, norm=norm)

    def step(self, at: Position, balancer: Balancer, *, total: int, rate: float, norm: float) -> None:
        """Write a `step` event for the updates since the last one."""
        now = monotonic()
        self.log.write(
            StepEvent(
                step=at.step,
                loss=at.since_log.mean,
                losses=at.since_log.means(self.names),
                learning_rate=rate,
                gradient_norm=norm,
                tokens_per_second=float(at.since_log.tokens.sum()) / (now - self._last_step_event),
                tokens=at.tokens,
                seconds=self.seconds,
                interval=at.interval,
                total_updates=total,
                target=self._by_direction(balancer.q) if balancer.cadence == "step" else None,
            )
        )
        at.since_log, self._last_step_event = at.since_log.cleared(), now

    def probe(self, step: int, balancer: Balancer, cosines: Mapping[str, float], seconds: float) -> None:
        """Gradients were compared."""
        self.log.write(ProbeEvent(step=step, seconds=seconds, cosines=cosines, target=self._by_direction(balancer.q)))

    def balance(
        self,
        at: Position,
        interval: Interval,
        balancer: Balancer,
        running: Mapping[str, float | None] | None,
        changed: bool,
    ) -> None:
        """An interval is over: its losses, what was sampled, and the next mixture.

        `running`: the losses per group that the balancer used; None if it uses none.
        """
        means = at.in_interval.means(self.names)
        self.log.write(
            BalanceEvent(
                step=at.step,
                interval=at.interval,
                mixture=self._by_direction(balancer.mixture.sample),
                target=self._by_direction(balancer.q),
                losses=means if running is None else self.groups.spread(running),
                interval_losses=means,
                baseline=self._baseline(balancer),
                realised={name: pairs / len(interval) for name, pairs in interval.counts.items()},
                passes={name: at.drawn_before[name] / self.store.sizes[name] for name in self.names},
                changed=changed,
            )
        )

    def validation(self, at: Position, result: Validation, *, best: bool, seconds: float) -> None:
        """The model was validated."""
        self.log.write(
            ValidationEvent(
                step=at.step,
                loss=result.loss,
                loss_per_character=result.loss_per_character,
                chrf=result.chrf or None,
                pooled=result.pooled,
                macro=result.macro,
                worst=result.worst,
                score=at.score,
                best=best,
                seconds=seconds,
            )
        )
        self._warn_of_overfitting(at, result)

    def average(self, step: int, steps: list[int], result: Validation | None, score: float | None) -> None:
        """The last checkpoints were averaged."""
        loss, per_character = (None, None) if result is None else (result.loss, result.loss_per_character)
        self.log.write(AverageEvent(step=step, steps=steps, score=score, loss=loss, loss_per_character=per_character))

    def checkpoint(self, saved: Checkpoint) -> None:
        """A checkpoint was written."""
        self.log.write(CheckpointEvent(step=saved.step, folder=self._relative(saved), score=saved.score))

    def done(self, at: Position, reason: str, best: Checkpoint) -> None:
        """The run is complete or was stopped."""
        self.log.write(
            DoneEvent(
                step=at.step,
                reason=reason,
                seconds=self.seconds,
                tokens=at.tokens,
                best_step=best.step,
                best_score=best.score,
                best_folder=self._relative(best),
                gpu_memory=self.processes.peak_memory(),
            )
        )
        if self.display is not None:
            self.display.show(end_table(read_log(self.home.log_file)))

    # -------------------------------------------------------------------------------------------------- warnings

    def _warn_of_overfitting(self, at: Position, result: Validation) -> None:
        """Warn if the validation loss of a direction rises while its training loss falls."""
        train = at.in_interval.means(self.names)
        for name, loss in result.loss.items():
            now, before = train[name], self._train_loss.get(name)
            lowest = min(loss, self._lowest.get(name, loss))
            if loss > OVERFIT * lowest and now is not None and before is not None and now < before:
                passes = counted(round(at.drawn_before[name] / self.store.sizes[name]), "pass", "passes")
                self._warn(
                    "overfitting",
                    name,
                    at.step,
                    f"{name}: validation loss {loss:.3f} has risen from {lowest:.3f} while training loss falls "
                    f"({now:.3f}), after at least {passes}; {against_overfitting(self.config)}",
                )
            self._lowest[name] = lowest
        self._train_loss = train

    def _warn(self, kind: str, direction: str | None, step: int, message: str) -> None:
        """Log a warning, once per run for each kind and direction."""
        key = kind if direction is None else f"{direction} {kind}"
        if key not in self.warned:
            self.warned.append(key)
            self.log.write(WarningEvent(step=step, kind=kind, direction=direction, message=message))

    def _by_direction(self, shares: Mapping[str, float]) -> dict[str, float]:
        return self.groups.shares(shares, self.store.sizes)

    def _baseline(self, balancer: Balancer) -> dict[str, float | None]:
        """Baseline loss by direction; None without baselines."""
        if balancer.baseline is None:
            return dict.fromkeys(self.names)
        return {**self.groups.spread(balancer.groups.keyed(balancer.baseline))}

    def _relative(self, saved: Checkpoint) -> str:
        return str(saved.folder.relative_to(self.home.folder))
