"""What a `Trainer` with a balancer reads: groups and lengths of a data set, batches of an epoch with their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from itertools import repeat
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset

from evenglot.balance import OptionError
from evenglot.integrations.torch import BalancedBatchSampler


def groups_in(dataset: Any, name: str) -> NDArray[Any]:
    """The groups in a data set: one of `datasets`, or any other with examples that are mappings."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise OptionError("train_dataset", "expected one with a length and indices; a stream cannot be balanced")
    if name not in dataset[0]:
        raise OptionError("group_column", f"train_dataset has no column {name!r}; it has {', '.join(dataset[0])}")
    return np.asarray(list(dataset[name]) if hasattr(dataset, "column_names") else _each(dataset, lambda x: x[name]))


def lengths_in(dataset: Any) -> NDArray[Any]:
    """Lengths of input and labels of every example; of the input alone if a collator makes the labels."""
    columns = [name for name in ("input_ids", "labels") if isinstance(dataset[0].get(name), Sized)]
    if not columns:
        raise OptionError("lengths", "the examples have no 'input_ids': pass one or two lengths for each of them")
    return np.asarray(_each(dataset, lambda example: [len(example[name]) for name in (columns * 2)[:2]]))


def _each(dataset: Any, value: Callable[[Any], Any]) -> list[Any]:
    return [value(dataset[i]) for i in range(len(dataset))]


def labels_of(batch: Mapping[str, Any]) -> Tensor:
    """The labels of a batch; OptionError if it has none."""
    labels = batch.get("labels")
    if labels is None:
        raise OptionError("labels", f"a batch has none, only {', '.join(batch)}; the data need a column 'labels'")
    return labels  # type: ignore[no-any-return]


class WithGroups:
    """A collator that takes the groups from the examples, and adds their ids to the batch."""

    def __init__(self, collator: Callable[..., Any], column: str, names: Sequence[str]) -> None:
        self.collator, self.column = collator, column
        self.id_of = {name: i for i, name in enumerate(names)}

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> Any:
        """The batch of these examples, with the ids of their groups if they have any."""
        batch = self.collator([{k: v for k, v in each.items() if k != self.column} for each in examples])
        if self.column in examples[0]:
            groups = [str(each[self.column]) for each in examples]
            for name in set(groups) - set(self.id_of):
                raise OptionError(self.column, f"{name!r} is not a group of the balancer: {', '.join(self.id_of)}")
            batch[self.column] = torch.tensor([self.id_of[name] for name in groups])
        return batch


class Epochs:
    """The batches of an epoch on this rank, from the first update that was not trained yet.

    Trainer counts the batches of an epoch from its start, and skips those that a resumed run has trained. So that none
    of them is read again, the first `skip` updates of the next epoch are empty.
    """

    def __init__(self, sampler: BalancedBatchSampler) -> None:
        self.sampler, self.skip = sampler, 0

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[list[int]]:
        updates, skipped = self.sampler.updates, self.skip
        self.skip = 0
        yield from repeat([], skipped * self.sampler.accumulate)
        first = updates.trained
        for update in range(first, first + updates.per_epoch - skipped):
            for batch in updates.micro_batches_of(update)[self.sampler.rank :: self.sampler.world]:
                yield batch.tolist()
