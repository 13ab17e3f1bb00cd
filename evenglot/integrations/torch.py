"""Balanced sampling and group losses for any PyTorch loop.

balancer = create("chi-ibr", sizes=Counter(languages))                      # languages: one name for each example
sampler = BalancedBatchSampler(languages, balancer, batch_size=32)
group_loss = GroupLoss(sampler)
loader = DataLoader(dataset, batch_sampler=sampler)
for epoch in range(epochs):
    for batch in loader:
        losses = cross_entropy(model(batch), batch["labels"], reduction="none")
        group_loss(losses, batch["language"]).backward()
        optimizer.step(), optimizer.zero_grad()
        group_loss.step()                            # observes the losses, and updates the mixture when it is due
save(sampler.state_dict())                           # position, mixture and balancer; plain JSON values
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from evenglot.balance import Balancer, OptionError, Split
from evenglot.integrations.updates import BalancedUpdates
from evenglot.robust.validate import number

__all__ = ["BalancedBatchSampler", "GroupLoss"]


class BalancedBatchSampler:
    """Batches of indices for a DataLoader (`batch_sampler=`) over a map-style data set, drawn from a balanced mixture.

    `groups` has the name of every example's group, such as its language. A batch has `batch_size` examples; or, if the
    `lengths` of the examples are given, at most `tokens` tokens with padding. With `accumulate` batches for each
    optimizer update, and on several ranks, the examples of an update are the same as in one batch of their size.

    Iterating once yields as many updates as the data have (an epoch); the next iteration continues from there. The
    mixture changes after every `interval_updates` updates, wherever epochs end, when the loader asks for the first
    batch of the next interval. A loader with workers asks for it some batches early.
    """

    def __init__(
        self,
        groups: Sequence[str] | NDArray[Any],
        balancer: Balancer,
        batch_size: int | None = None,
        interval_updates: int = 100,
        seed: int = 0,
        *,
        lengths: ArrayLike | None = None,
        tokens: int | None = None,
        accumulate: int = 1,
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        self.balancer, self.seed = balancer, seed
        self.accumulate = int(number(accumulate, "accumulate", 1))
        self.rank = _rank() if rank is None else rank
        self.world = _world() if world is None else world
        _check_rank(self.rank, self.world)
        self.updates = BalancedUpdates(
            groups,
            balancer,
            rows=32 if batch_size is None and tokens is None else batch_size,
            lengths=lengths,
            tokens=tokens,
            micro_batches=self.accumulate * self.world,
            interval_updates=interval_updates,
            seed=seed,
        )
        self.recorded = Recorded()
        self._epoch_start, self._epoch_updates = 0, 0  # 0 updates: as many as the data have
        self._in_epoch = False  # whether an epoch that is over was not left yet

    @property
    def names(self) -> tuple[str, ...]:
        """The groups in the order of their ids (`GroupLoss`)."""
        return self.balancer.groups.names

    def __len__(self) -> int:
        """Batches of one epoch on this rank; constant, whatever the mixture."""
        return self.updates.per_epoch * self.accumulate

    def __iter__(self) -> Iterator[list[int]]:
        """The rest of the current epoch, from the first update that has not been reported as done."""
        start, length = self._position, self._epoch_updates or self.updates.per_epoch
        is_over = not self._epoch_start <= start < self._epoch_start + length
        if is_over and not self._in_epoch:
            self._epoch_start = start
        for update in range(start, self._epoch_start + length):
            for batch in self.updates.micro_batches_of(update)[self.rank :: self.world]:
                yield batch.tolist()

    def begin_epoch(self, updates: int | None = None) -> None:
        """End the current epoch here; epochs have so many updates from now on, by default as many as the data have."""
        self.updates.seek()
        self._epoch_start, self._epoch_updates, self._in_epoch = self._position, updates or 0, False

    def divide(self, rank: int, world: int, accumulate: int) -> None:
        """Divide updates among ranks and batches, for trainers that start their processes after the sampler is made."""
        _check_rank(rank, world)
        self.rank, self.world, self.accumulate = rank, world, int(number(accumulate, "accumulate", 1))
        self.updates.divide(self.accumulate * world)

    def step(self, loss_sums: Mapping[str, float] | None = None, counts: Mapping[str, float] | None = None) -> None:
        """Report an optimizer step, with the sums of its losses and their numbers by group, over all ranks."""
        if loss_sums is not None or counts is not None:
            self.balancer.observe(loss_sums or {}, counts or {})
        self.updates.done(self.updates.trained + 1)

    def state_dict(self) -> dict[str, Any]:
        """Position, mixture and the balancer's state, after the last reported step; plain JSON values."""
        return {**self.updates.state_dict(), "epoch_start": self._epoch_start}

    def load_state_dict(self, state: Mapping[str, Any], in_epoch: bool = False) -> None:
        """Continue after the step at which `state_dict` was called; also with another division into batches.

        If that was the last one of an epoch, the next one begins; with `in_epoch`, only when `begin_epoch` is called.
        """
        self.updates.load_state_dict(state)
        self._epoch_start = int(state.get("epoch_start", self._position - self._position % self.updates.per_epoch))
        self._in_epoch = in_epoch

    @property
    def _position(self) -> int:
        """The next update."""
        return self.updates.trained or self.updates.asked  # a loop without losses may not report any


@dataclass(eq=False)
class Recorded:
    """Losses since the last step or validation; all `GroupLoss` of a sampler share it."""

    sums: dict[Split, Tensor] = field(default_factory=dict)  # loss sums and counts, (2, groups)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))  # of the losses
    has_losses: bool = False  # whether training losses were ever recorded
    # A trainer that averages over the batches of an update multiplies gradients by `GroupLoss.gradient_factor`. Until
    # then, losses are divided by the number of items of the first batch.
    factor_follows: bool = False
    first_items: Tensor | None = None


class GroupLoss:
    """The training loss from the losses of examples or tokens, recording their sums by group for the balancer.

    `group_loss(losses, groups, mask)` returns the loss to backpropagate, weighted if the strategy asks for it;
    `group_loss.step()`, after every optimizer step, sums over all ranks, passes the sums to the balancer, and reports
    the step to the sampler.
    """

    def __init__(self, sampler: BalancedBatchSampler) -> None:
        self.sampler, self.balancer = sampler, sampler.balancer
        self.names = sampler.names
        self.last: tuple[dict[str, float], dict[str, float]] = ({}, {})  # loss sums and counts of the last step
        self.recorded = sampler.recorded
        self._id_of = {name: i for i, name in enumerate(self.names)}
        self._check_example_weights()
        if self.balancer.signal is not None and self.balancer.signal.unit != "token":
            raise OptionError(
                "balancer", "loss_per: GroupLoss counts tokens or examples; pass characters to sampler.step"
            )

    def __call__(
        self,
        losses: Tensor,
        groups: Tensor | Sequence[str],
        mask: Tensor | None = None,
        items: float | Tensor | None = None,
    ) -> Tensor:
        """The loss to backpropagate on this batch.

        `losses` are those of the examples, (B,), or of their tokens, (B, T), without any reduction; `groups` are the B
        names, or ids (positions in `names`); `mask` is True for tokens that count. The result is the mean over the
        batch. With `accumulate` > 1, pass `items`, the number of examples or tokens of the whole update over all ranks:
        the results of its batches then add up to its mean. (Gradients are averaged over ranks, as by
        DistributedDataParallel.)
        """
        if losses.dtype in (torch.float16, torch.bfloat16):
            losses = losses.float()  # sums need more digits
        self.recorded.has_losses = True
        weights = self._record("train", losses, groups, mask)
        if self.balancer.needs.example_weights:
            return self._weighted_examples(losses, groups, mask)
        if items is None:
            items = self._items(weights)
        factors = self.balancer.mixture.loss
        if factors is not None:
            each = torch.tensor([factors[name] for name in self.names], dtype=losses.dtype, device=losses.device)
            weights = weights * _by_row(each[self._ids(groups, losses)], losses)
        # A masked loss may be infinite (a label that cannot occur), and 0 * inf is not a number.
        return torch.where(weights != 0, losses * weights, 0).sum() * (self.sampler.world / items)

    def validation(self, losses: Tensor, groups: Tensor | Sequence[str], mask: Tensor | None = None) -> None:
        """Record the losses of a validation batch, for strategies that observe them."""
        self._record("valid", losses, groups, mask)

    def end_validation(self) -> dict[str, float]:
        """Pass the validation losses to the balancer, over all ranks; returns the mean of each group that has any."""
        sums, counts = self.totals("valid")
        if any(counts.values()):  # observing nothing would count as having validated
            self.balancer.observe(sums, counts, "valid")
        return means(sums, counts)

    def step(self) -> dict[str, float]:
        """End an optimizer step: call it on all ranks. Returns the mean loss of each group in it."""
        signal = self.balancer.signal
        if signal is not None and signal.split == "train" and not self.recorded.has_losses:
            raise OptionError(
                "balancer",
                f"{self.balancer.strategy} needs the training losses and got none: backpropagate "
                "group_loss(losses, groups), where losses are those of the examples or tokens (reduction='none')",
            )
        self.last = self.totals("train")
        self.recorded.first_items = None
        self.sampler.step(*self.last)
        return means(*self.last)

    def gradient_factor(self) -> float:
        """The number that turns the gradients of an update into those of the mean over all its items.

        For trainers that average over its batches (`Recorded.factor_follows`); call it on all ranks before `step`.
        """
        if self.recorded.first_items is None:
            return 1.0
        items = _total(self.recorded.sums["train"][1].sum(), self.sampler.world)
        return float(self.recorded.first_items * self.sampler.accumulate / items.clamp(min=1))

    # --------------------------------------------------------------------------------------------------------- sums

    def _record(self, split: Split, losses: Tensor, groups: Tensor | Sequence[str], mask: Tensor | None) -> Tensor:
        """Add sums and counts by group; returns 1 or 0 for every loss: whether it counts."""
        if losses.ndim not in (1, 2):
            raise OptionError("losses", f"expected losses of examples (B,) or tokens (B, T), got {tuple(losses.shape)}")
        if mask is not None and mask.shape != losses.shape:
            raise OptionError("mask", f"expected shape {tuple(losses.shape)}, got {tuple(mask.shape)}")
        ids = self._ids(groups, losses)
        counted = torch.ones_like(losses) if mask is None else mask.to(losses.dtype)
        exact = torch.float32 if losses.device.type == "mps" else torch.float64  # which has no float64
        seen = losses.detach().to(exact).masked_fill(counted == 0, 0.0)
        rows = torch.stack([_sum_rows(seen), _sum_rows(counted.to(exact))])
        zero = torch.zeros(2, len(self.names), dtype=exact, device=losses.device)
        sums = zero.index_add_(1, ids, rows)
        before = self.recorded.sums.get(split)
        self.recorded.sums[split] = sums if before is None else before + sums
        self.recorded.device = losses.device
        return counted

    def totals(self, split: Split) -> tuple[dict[str, float], dict[str, float]]:
        """Loss sums and counts by group over all ranks, since the last call; call it on all ranks."""
        sums = self.recorded.sums.pop(split, None)
        if sums is None:
            sums = torch.zeros(2, len(self.names), dtype=torch.float64, device=self.recorded.device)
        losses, counts = _total(sums, self.sampler.world).tolist()
        return dict(zip(self.names, losses, strict=True)), dict(zip(self.names, counts, strict=True))

    def _items(self, counted: Tensor) -> Tensor:
        """What to divide the sum of the losses of this batch by; at least 1, since everything may be masked."""
        if self.recorded.factor_follows and self.recorded.first_items is not None:
            return self.recorded.first_items
        items = _total(counted.sum().detach(), self.sampler.world).clamp(min=1)
        if not self.recorded.factor_follows:
            return items * self.sampler.accumulate
        self.recorded.first_items = items
        return items

    def _check_example_weights(self) -> None:
        if self.balancer.needs.example_weights and self.sampler.accumulate * self.sampler.world > 1:
            raise OptionError(
                "balancer",
                f"{self.balancer.strategy} weights the examples of a whole update: use one process and do not "
                "accumulate gradients",
            )

    def _weighted_examples(self, losses: Tensor, groups: Tensor | Sequence[str], mask: Tensor | None) -> Tensor:
        """The sum of the examples' mean losses, weighted by the strategy."""
        self._check_example_weights()
        counted = torch.ones_like(losses) if mask is None else mask.to(losses.dtype)
        means = _sum_rows(torch.where(counted != 0, losses, 0)) / _sum_rows(counted).clamp(min=1)
        names = [self.names[i] for i in self._ids(groups, losses).tolist()]
        weights = self.balancer.example_weights(means.detach().double().cpu().numpy(), names)
        return (means * torch.as_tensor(np.asarray(weights), dtype=means.dtype, device=means.device)).sum()

    def _ids(self, groups: Tensor | Sequence[str], losses: Tensor) -> Tensor:
        if not isinstance(groups, Tensor):
            try:
                groups = torch.tensor([self._id_of[str(name)] for name in groups])
            except KeyError as error:
                raise OptionError("groups", f"unknown group {error}; known: {', '.join(self.names)}") from error
        if groups.shape != losses.shape[:1]:
            raise OptionError("groups", f"expected one for each of {len(losses)} examples, got {tuple(groups.shape)}")
        if len(groups) and not 0 <= int(groups.min()) <= int(groups.max()) < len(self.names):
            raise OptionError("groups", f"expected ids from 0 to {len(self.names) - 1}")
        return groups.to(losses.device)


def means(sums: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
    """The mean loss of each group that has any."""
    return {name: sums[name] / count for name, count in counts.items() if count}


def _sum_rows(values: Tensor) -> Tensor:
    """One number for each example."""
    return values.sum(dim=1) if values.ndim == 2 else values


def _by_row(values: Tensor, losses: Tensor) -> Tensor:
    """Values of examples in the shape of the losses of their tokens."""
    return values[:, None].expand_as(losses) if losses.ndim == 2 else values


def _total(values: Tensor, world: int) -> Tensor:
    """The sum over all ranks."""
    if world > 1:
        torch.distributed.all_reduce(values)
    return values


def _check_rank(rank: int, world: int) -> None:
    if not 0 <= rank < world:
        raise OptionError("rank", f"expected 0 to {world - 1} for {world} ranks, got {rank}")


def _rank() -> int:
    return torch.distributed.get_rank() if _is_distributed() else 0


def _world() -> int:
    return torch.distributed.get_world_size() if _is_distributed() else 1


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
