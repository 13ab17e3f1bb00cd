"""Balancing in Lightning 2 (`lightning` or `pytorch-lightning`).

sampler = BalancedBatchSampler(languages, create("chi-ibr", sizes=Counter(languages)), batch_size=32)
group_loss = GroupLoss(sampler)                      # in training_step: return group_loss(losses, batch["language"])
loader = DataLoader(dataset, batch_sampler=sampler)  # in validation_step: group_loss.validation(losses, languages)
Trainer(callbacks=[BalancingCallback(sampler)], use_distributed_sampler=False).fit(model, loader)
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.data import DataLoader

from evenglot.balance import OptionError, UnservedError
from evenglot.extras import missing
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss, means
from evenglot.seeding import generator

if TYPE_CHECKING or find_spec("lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer
elif find_spec("pytorch_lightning"):
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    raise missing("lightning", "lightning")

__all__ = ["BalancingCallback"]

# Lightning cannot know that the sampler continues where the checkpoint was saved.
NOT_RESUMABLE = "You're resuming from a checkpoint that ended before the epoch ended"


class BalancingCallback(Callback):
    """Reports every optimizer step to the sampler, logs mixture and losses by group, and saves it all in checkpoints.

    The training loss must come from a `GroupLoss` of the sampler. With `accumulate_grad_batches` and on several
    processes, an update trains on the mean over all of its tokens or examples, as one batch would.

    Logged as `q/GROUP`, `train_loss/GROUP`, `val_loss/GROUP`, `val_loss_macro` (the mean over groups) and
    `val_loss_worst`. The last two can be monitored: `ModelCheckpoint(monitor="val_loss_worst")`.

    A run that is resumed from any checkpoint ends with the same weights: the random numbers of a training step
    (dropout) are a function of the sampler's seed, the step and the process; an update that was not finished is
    repeated from its first batch, and a validation that was due is run.
    """

    def __init__(self, sampler: BalancedBatchSampler) -> None:
        self.sampler, self.balancer = sampler, sampler.balancer
        self.loss = GroupLoss(sampler)
        self._batches = 0  # trained since the last update
        self._steps = 0  # of the trainer, at the last update
        self._validation_is_due = False
        self._before_validation: dict[str, Any] | None = None  # the sampler, if one is run within an update
        self._is_rewound = False  # by the checkpoint that is loaded
        self._sums: Counter[str] = Counter()  # since the last log
        self._counts: Counter[str] = Counter()

    # ----------------------------------------------------------------------------------------------------------- start

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Divide the updates among the trainer's processes and batches, before it asks for any."""
        if stage == "fit":
            self._check(trainer)
            # Before the others: one that saves a checkpoint after a batch must find the batch reported.
            callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]  # set by a connector
            callbacks.remove(self)
            callbacks.insert(0, self)
        accumulate = trainer.accumulate_grad_batches
        self.sampler.divide(trainer.global_rank, trainer.world_size, accumulate)
        self.sampler.begin_epoch(math.ceil(_epoch_batches(len(self.sampler), trainer.limit_train_batches) / accumulate))
        recorded = self.sampler.recorded
        recorded.sums.clear()
        recorded.first_items, recorded.factor_follows = None, accumulate > 1
        self._batches, self._validation_is_due, self._before_validation = 0, False, None

    def _check(self, trainer: Trainer) -> None:
        """Refuse what would train on other batches or another loss without a sign of it."""
        needs, accumulate = self.balancer.needs, trainer.accumulate_grad_batches
        if needs.gradients is not None:
            raise UnservedError(self.balancer.strategy, ["gradients"])
        if needs.validation_losses:
            if not trainer.enable_validation:
                raise UnservedError(self.balancer.strategy, ["validation_losses"])
            self.balancer.serves("validation_losses")  # intervals may end before the first validation
        if self.sampler.accumulate not in (1, accumulate):
            raise OptionError(
                "accumulate_grad_batches",
                f"{accumulate} in the Trainer, but accumulate={self.sampler.accumulate} in the sampler; leave out the "
                "latter",
            )
        if needs.example_weights and accumulate * trainer.world_size > 1:
            raise OptionError(
                "accumulate_grad_batches" if accumulate > 1 else "devices",
                f"{self.balancer.strategy} weights the examples of a whole update: use one process and 1 batch",
            )
        if accumulate > 1 and trainer.strategy.handles_gradient_accumulation:
            raise OptionError(
                "accumulate_grad_batches",
                f"{type(trainer.strategy).__name__} accumulates gradients itself, where they cannot be scaled to the "
                "mean over the update; use 1 batch, or another strategy",
            )
        if trainer.overfit_batches:  # type: ignore[attr-defined]  # set by a connector of the trainer
            raise OptionError("overfit_batches", "replaces the sampler; use limit_train_batches instead")
        replicas = (trainer.distributed_sampler_kwargs or {}).get("num_replicas", 1)
        if replicas != trainer.world_size:
            raise OptionError(
                "strategy", f"{trainer.world_size} processes have {replicas} copies of the model; expected one each"
            )
        if trainer.world_size > 1 and getattr(trainer._accelerator_connector, "use_distributed_sampler", False):
            raise OptionError(
                "use_distributed_sampler",
                "True would replace the sampler, which divides batches among processes itself: pass "
                "Trainer(use_distributed_sampler=False)",
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check that the loader has the sampler."""
        self._check_loader(trainer)
        self._steps = trainer.global_step
        self._sums.clear()
        self._counts.clear()
        warnings.filterwarnings("ignore", NOT_RESUMABLE)
        if self._is_rewound and _is_validated(trainer):
            trainer.fit_loop.epoch_loop._batches_that_stepped -= 1  # it counts the last update again
        self._is_rewound = False

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin an epoch of the sampler with that of the trainer, also if the last one ended early."""
        self._check_loader(trainer)  # it may be a new one: reload_dataloaders_every_n_epochs
        self.sampler.begin_epoch(math.ceil(trainer.num_training_batches / self.sampler.accumulate))

    def _check_loader(self, trainer: Trainer) -> None:
        loader = trainer.train_dataloader
        if not isinstance(loader, DataLoader) or loader.batch_sampler is not self.sampler:
            raise OptionError(
                "train_dataloaders",
                "expected one DataLoader with the sampler of BalancingCallback: DataLoader(dataset, "
                "batch_sampler=sampler)",
            )

    # ----------------------------------------------------------------------------------------------------------- steps

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Seed the step: Lightning does not restore the state of random generators on resume."""
        if trainer.accumulate_grad_batches != self.sampler.accumulate:
            raise OptionError(
                "accumulate_grad_batches", "cannot change during training (GradientAccumulationScheduler)"
            )
        key = (self.sampler.updates.trained, self._batches, self.sampler.rank)
        torch.manual_seed(int(generator(self.sampler.seed, "lightning step", *key).integers(1 << 63)))

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Turn the gradients into those of the mean over the update; before they are clipped."""
        factor = self.loss.gradient_factor()
        if factor == 1:
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Report the update if this batch ended it. With manual optimization, every batch is an update."""
        self._batches += 1
        self._validation_is_due = _is_validated(trainer)
        if pl_module.automatic_optimization and trainer.global_step == self._steps:
            return
        self.loss.step()
        self._batches, self._steps, self._before_validation = 0, trainer.global_step, None
        for total, part in zip((self._sums, self._counts), self.loss.last, strict=True):
            total.update(part)
        every = trainer.log_every_n_steps  # type: ignore[attr-defined]  # set by a connector of the trainer
        if every and (trainer.global_step % every == 0 or not pl_module.automatic_optimization):
            pl_module.log_dict(_keyed("q", self.balancer.q))
            pl_module.log_dict(_keyed("train_loss", means(self._sums, self._counts)))
            self._sums.clear()
            self._counts.clear()

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the validation losses; while fitting, the balancer observes them."""
        sums, counts = self.loss.totals("valid")
        if trainer.sanity_checking:
            return
        if not any(counts.values()):
            if self.balancer.needs.validation_losses:
                raise UnservedError(self.balancer.strategy, ["validation_losses"])
            return
        if trainer.state.fn == "fit":
            if self._batches and self._before_validation is None:
                self._before_validation = self.sampler.state_dict()
            self.balancer.observe(sums, counts, "valid")
        losses = means(sums, counts)
        summary = {"val_loss_macro": sum(losses.values()) / len(losses), "val_loss_worst": max(losses.values())}
        # They are the same on all processes; sync_dist tells Lightning so.
        pl_module.log_dict({**_keyed("val_loss", losses), **summary}, sync_dist=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Checkpoints that are saved from here on have it."""
        self._validation_is_due = False

    # ----------------------------------------------------------------------------------------------------- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Saved in every checkpoint, as plain values: the sampler after the last update, and what followed it."""
        return {
            "sampler": self._before_validation or self.sampler.state_dict(),
            "batches": self._batches,
            "validation_is_due": self._validation_is_due,
        }

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Change Lightning's position: it saves no gradients, and would skip a validation that was due."""
        saved = checkpoint["callbacks"].get(self.state_key)
        if trainer.state.fn != "fit" or saved is None:
            return
        loops = checkpoint["loops"]["fit_loop"]
        if saved["batches"]:
            self._is_rewound = True
            _rewind(loops, saved["batches"])
            if any(isinstance(each, _NormBase) and each.track_running_stats for each in pl_module.modules()):
                warnings.warn(
                    f"this checkpoint was saved within an update: its first {saved['batches']} batches are trained "
                    "again, and count twice in the running statistics of BatchNorm",
                    stacklevel=1,
                )
        elif saved.get("validation_is_due"):
            _enter_validation(loops)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue after the last update."""
        is_due = state_dict.get("validation_is_due", False) and not state_dict["batches"]
        self.sampler.load_state_dict(state_dict["sampler"], in_epoch=is_due)


def _is_validated(trainer: Trainer) -> bool:
    """Whether a validation follows the last batch."""
    fetcher = trainer.fit_loop._data_fetcher
    return fetcher is not None and trainer.fit_loop.epoch_loop._should_check_val_fx(fetcher)


def _rewind(loops: dict[str, Any], batches: int) -> None:
    """Change the saved state of Lightning's loops: they are so many batches back, with nothing left to do there."""
    training, validation = loops["epoch_loop.batch_progress"], loops["epoch_loop.val_loop.batch_progress"]
    training["is_last_batch"] = False
    for kind in ("total", "current"):
        training[kind] = dict.fromkeys(training[kind], training[kind]["processed"] - batches)
        validation[kind] = dict.fromkeys(validation[kind], validation[kind]["completed"])


def _enter_validation(loops: dict[str, Any]) -> None:
    """Change the saved state of Lightning's loops: they are in the first batch of the validation."""
    training, validation = loops["epoch_loop.batch_progress"], loops["epoch_loop.val_loop.batch_progress"]
    for kind in ("total", "current"):
        training[kind]["completed"] = training[kind]["processed"]
        done = validation[kind]["completed"] if kind == "total" else 0
        validation[kind] = {"ready": done + 1, "started": done + 1, "processed": done, "completed": done}


def _keyed(kind: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{kind}/{name}": value for name, value in values.items()}


def _epoch_batches(batches: int, limit: int | float | None) -> int:
    """Batches of an epoch under `limit_train_batches`, as Lightning counts them; at least 1."""
    if limit is None:
        return batches
    return max(1, min(batches, limit) if isinstance(limit, int) else int(batches * limit))
