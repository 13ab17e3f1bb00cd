"""One update: micro-batches -> gradients -> sum over processes -> optimizer step; with loss sums per direction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenglot.balance import Balancer
from evenglot.batches.load import Batch
from evenglot.config import Config
from evenglot.corpus.store import Store
from evenglot.directions import GroupMap
from evenglot.model.interface import TranslationModel
from evenglot.model.loss import BatchLoss, batch_loss, direction_sums, loss_of_hidden
from evenglot.seeding import generator
from evenglot.training.parallel import Processes
from evenglot.training.parallel_modes import Flat, whole
from evenglot.wording import some

Numbers = NDArray[np.float64]
LossUnit = Literal["token", "character"]


class TrainingError(ValueError):
    """Training cannot continue; the message has the update and what to try."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Sums over sentences per direction, in the order of `Step.names`: losses, target tokens and characters."""

    losses: Numbers
    tokens: Numbers
    characters: Numbers

    @staticmethod
    def nothing(directions: int) -> Observed:
        """Zeros."""
        return Observed(*np.zeros((3, directions)))

    @staticmethod
    def of(rows: Sequence[Sequence[float]]) -> Observed:
        """Inverse of `rows`."""
        return Observed(*(np.array(row, dtype=np.float64) for row in rows))

    def rows(self) -> list[list[float]]:
        """Convert to plain lists, for a checkpoint."""
        return [self.losses.tolist(), self.tokens.tolist(), self.characters.tolist()]

    def cleared(self) -> Observed:
        """Zeros for the same directions."""
        return Observed.nothing(len(self.losses))

    def __add__(self, other: Observed) -> Observed:
        return Observed(self.losses + other.losses, self.tokens + other.tokens, self.characters + other.characters)

    @property
    def mean(self) -> float:
        """Loss per token over all directions."""
        return float(self.losses.sum() / self.tokens.sum())

    def by_direction(self, names: Sequence[str], unit: LossUnit) -> tuple[dict[str, float], dict[str, float]]:
        """Loss sums and numbers of tokens (or characters) per direction."""
        counts = self.tokens if unit == "token" else self.characters
        return (
            dict(zip(names, self.losses.tolist(), strict=True)),
            dict(zip(names, counts.tolist(), strict=True)),
        )

    def means(self, names: Sequence[str], unit: LossUnit = "token") -> dict[str, float | None]:
        """Loss per token (or character) of each direction; None for directions without tokens."""
        counts = self.tokens if unit == "token" else self.characters
        return {
            name: float(loss / count) if count else None
            for name, loss, count in zip(names, self.losses, counts, strict=True)
        }


class Step:
    """Trains or evaluates the model on batches and sums losses per direction. Evaluation needs no optimizer."""

    def __init__(
        self,
        model: TranslationModel,
        optimizer: torch.optim.Optimizer | None,
        processes: Processes,
        mode: Flat | None = None,
        *,
        characters: Tensor,
        names: Sequence[str],
        smoothing: float,
        clip: float | None,
        seed: int,
    ) -> None:
        self.model, self.optimizer, self.processes = model, optimizer, processes
        self.mode = mode or Flat(model, processes)
        self.characters = characters  # number of characters of each target subword
        self.names = list(names)
        self.smoothing, self.clip, self.seed = smoothing, clip, seed
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=processes.precision == "float16")

    @staticmethod
    def of(
        config: Config,
        store: Store,
        model: TranslationModel,
        optimizer: torch.optim.Optimizer | None,
        processes: Processes,
        mode: Flat | None = None,
    ) -> Step:
        """Create from a configuration, for the directions of a store."""
        return Step(
            model,
            optimizer,
            processes,
            mode,
            characters=torch.from_numpy(store.tokenizers.characters()),
            names=sorted(store.directions),
            smoothing=config.train.label_smoothing,
            clip=config.train.clip,
            seed=config.seed,
        )

    def train(
        self, step: int, batches: Sequence[Batch], tokens: int, balancer: Balancer, groups: GroupMap
    ) -> tuple[Observed, float]:
        """Do update `step`, with `tokens` target tokens over all processes. Returns loss sums and the gradient norm."""
        self.model.train()
        self.model.zero_grad()
        if balancer.needs.example_weights:
            losses = self._train_weighted_examples(step, batches, balancer, groups)
        else:
            factors = self._factors(balancer, groups)
            weights = [batch.weight * factors[batch.direction] / tokens for batch in batches]
            losses = self._train_batches(step, batches, weights)
        seen = self.all_processes(self._observed(batches, losses))  # last, as reading a loss synchronises with the GPU
        self.check_losses(step, seen.losses)
        return seen, self._take_step(step, seen)

    def evaluate(self, batches: Sequence[Batch]) -> Observed:
        """Loss sums of this process on these batches, without gradients or dropout."""
        self.model.eval()
        losses = []
        with torch.no_grad(), self.mode.evaluation(), self.processes.autocast():
            for batch in batches:
                weights = torch.ones(len(batch.direction), device=self.processes.device)
                losses.append(batch_loss(self.model, batch.to(self.processes.device), weights, self.smoothing).sums)
        return self._observed(batches, losses)

    def all_processes(self, seen: Observed) -> Observed:
        """Sum over all processes."""
        stacked = torch.from_numpy(np.stack([seen.losses, seen.tokens, seen.characters]))
        return Observed(*self.processes.sum(stacked).numpy())

    def gradient(self, step: int, batch: Batch, *key: int | str) -> Tensor:
        """The gradient of the training loss of a batch as one vector, with dropout; does not change the model.

        Where weights are divided among processes, it is the sum over their batches.
        """
        self.model.train()
        self.model.zero_grad()
        self._seed_dropout(step, *key)
        weights = torch.full((len(batch.direction),), 1 / float(batch.target_lengths.sum()))
        with self.processes.autocast():
            loss = batch_loss(self.model, batch.to(self.processes.device), weights, self.smoothing)
        loss.objective.backward()  # type: ignore[no-untyped-call]
        parts = [whole(p.grad).reshape(-1) for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat(parts)
        self.model.zero_grad()
        return flat

    def rehearse(self, batch: Batch) -> None:
        """The backward passes with weight 0 that a mode needs before the first update; they change nothing."""
        self.model.train()
        for _ in range(self.mode.rehearsals):
            self._train_batches(0, [batch], [torch.zeros(len(batch.direction))])
            self.mode.rehearsed()
            self.model.zero_grad()

    def _seed_dropout(self, step: int, *key: int | str) -> None:
        torch.manual_seed(int(generator(self.seed, "dropout", step, *key).integers(2**63)))

    def _factors(self, balancer: Balancer, groups: GroupMap) -> Tensor:
        """Loss weight per direction: the weight of its group, or 1."""
        if balancer.mixture.loss is None:
            return torch.ones(len(self.names))
        weights = groups.spread(balancer.mixture.loss)
        return torch.tensor([weights[name] for name in self.names])

    def _train_weighted_examples(
        self, step: int, batches: Sequence[Batch], balancer: Balancer, groups: GroupMap
    ) -> list[Tensor]:
        """FastDRO: as usual, but weights depend on the losses of all sentences of the update.

        So losses come first. A single batch is then still in memory. Of several, each is run again, with the same
        dropout, because the activations of all of them may need too much memory.
        """
        if len(batches) == 1:
            hidden = self._forward(step, 0, batches[0], is_last=True)
            sums = [self._loss_sums(hidden.detach(), batches[0])]
            (weights,) = self._example_weights(step, batches, sums, balancer, groups)
            return [self._backward(hidden, batches[0], weights)]
        with torch.no_grad():
            hidden_of = (self._forward(step, k, batch, is_last=False) for k, batch in enumerate(batches))
            sums = [self._loss_sums(hidden, batch) for hidden, batch in zip(hidden_of, batches, strict=True)]
        return self._train_batches(step, batches, self._example_weights(step, batches, sums, balancer, groups))

    def _example_weights(
        self, step: int, batches: Sequence[Batch], sums: Sequence[Tensor], balancer: Balancer, groups: GroupMap
    ) -> list[Tensor]:
        """A factor on the token losses of each sentence, from the losses of the sentences on all processes."""
        means = [loss / batch.target_lengths for loss, batch in zip(sums, batches, strict=True)]
        counted = torch.cat([torch.full_like(mean, batch.weight) for mean, batch in zip(means, batches, strict=True)])
        direction = torch.cat([batch.direction for batch in batches])
        everybody = [self.processes.gather(values) for values in (torch.cat(means), direction, counted)]
        losses, ids, real = (torch.cat(parts).numpy() for parts in everybody)
        self.check_losses(step, np.bincount(ids, losses, len(self.names)).astype(np.float64))
        weights = np.zeros_like(losses)
        weights[real > 0] = balancer.example_weights(losses[real > 0], [groups[self.names[i]] for i in ids[real > 0]])
        before = sum(len(part) for part in everybody[0][: self.processes.rank])
        own = torch.from_numpy(weights[before : before + len(direction)])
        by_batch = torch.split(own, [len(batch.direction) for batch in batches])
        return [(w / batch.target_lengths).float() for w, batch in zip(by_batch, batches, strict=True)]

    def _loss_sums(self, hidden: Tensor, batch: Batch) -> Tensor:
        """The loss sum of each sentence, without gradients."""
        with torch.no_grad():
            return self._loss(hidden, batch, torch.zeros(len(batch.direction))).sums.cpu().double()

    def _train_batches(self, step: int, batches: Sequence[Batch], weights: Sequence[Tensor]) -> list[Tensor]:
        """Accumulate the gradients of all micro-batches. Returns the loss sums of their sentences."""
        last = len(batches) - 1
        return [
            self._backward(self._forward(step, k, batch, is_last=k == last), batch, factors)
            for k, (batch, factors) in enumerate(zip(batches, weights, strict=True))
        ]

    def _backward(self, hidden: Tensor, batch: Batch, weights: Tensor) -> Tensor:
        """Accumulate gradients. Returns the loss sum of each sentence."""
        loss = self._loss(hidden, batch, weights)
        self.scaler.scale(loss.objective).backward()  # type: ignore[no-untyped-call]
        return loss.sums

    def _forward(self, step: int, position: int, batch: Batch, *, is_last: bool) -> Tensor:
        """Hidden states of micro-batch `position`; its dropout does not depend on the number of processes."""
        self._seed_dropout(step, position * self.processes.world + self.processes.rank)
        with self.processes.autocast():
            return self.mode.forward(batch.to(self.processes.device), is_last)

    def _loss(self, hidden: Tensor, batch: Batch, weights: Tensor) -> BatchLoss:
        """The loss of a micro-batch, with a factor on the token losses of each sentence."""
        device = self.processes.device
        with self.processes.autocast():
            return loss_of_hidden(hidden, self.model, batch.to(device), weights.to(device), self.smoothing)

    def _observed(self, batches: Sequence[Batch], losses: Sequence[Tensor]) -> Observed:
        """Sums per direction over the batches of this process; filler batches (weight 0) do not count."""
        seen = Observed.nothing(len(self.names))
        for batch, sums in zip(batches, losses, strict=True):
            of_sentences = (sums.cpu(), batch.target_lengths, self.characters[batch.target].sum(1))
            by_direction = (direction_sums(values, batch.direction, len(self.names)).numpy() for values in of_sentences)
            seen += Observed(*(batch.weight * values for values in by_direction))
        return seen

    def _take_step(self, step: int, seen: Observed) -> float:
        if self.optimizer is None:
            raise ValueError("optimizer: required for training, but this Step was created without one")
        self.mode.sum_gradients()
        self.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        total = whole(torch.nn.utils.get_total_norm(gradients))
        norm = float(total)
        if not math.isfinite(norm) and self.scaler.get_scale() <= 1:
            self._stop(step, "the gradient", seen.tokens > 0)
        if self.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.clip, total)
        self.scaler.step(self.optimizer)  # skips the update on an overflow, which is normal in float16
        self.scaler.update()
        return norm

    def check_losses(self, step: int, losses: Numbers, what: str = "the loss") -> None:
        """Raise TrainingError if a loss (one per direction) is not finite."""
        if not np.isfinite(losses).all():
            self._stop(step, what, ~np.isfinite(losses))

    def _stop(self, step: int, what: str, directions: NDArray[np.bool_]) -> None:
        names = [name for name, concerned in zip(self.names, directions, strict=True) if concerned]
        raise TrainingError(
            f"update {step}: {what} is not finite, in {some(names)}; this update was not saved. Resume from the last "
            "checkpoint with --resume and a lower train.learning_rate, a longer train.warmup, train.clip=1 or "
            "train.precision=float32"
        )
