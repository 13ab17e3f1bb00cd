"""Group DRO on a classifier with a spurious feature: the accuracy of the worst group, without and with balancing.

The label is predicted by a noisy feature. A second, clearer feature agrees with the label in 95 % of the training
examples. A model trained on all examples alike relies on it, and fails on the groups where the two disagree.
"""

import argparse
from collections import Counter

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from evenglot.balance import create
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss

NAMES = ["0, agrees", "0, disagrees", "1, disagrees", "1, agrees"]  # label, and whether the second feature agrees


def examples(sizes: list[int], seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, labels and groups."""
    chance = torch.Generator().manual_seed(seed)
    groups = torch.repeat_interleave(torch.arange(4), torch.tensor(sizes))
    labels, second = groups // 2, groups % 2
    features = torch.randn(len(groups), 20, generator=chance)  # 18 of them are noise
    features[:, 0] = 2 * labels - 1 + 1.0 * features[:, 0]
    features[:, 1] = 2 * second - 1 + 0.3 * features[:, 1]
    return features, labels, groups


def train(strategy: str, steps: int, seed: int) -> nn.Module:
    """A classifier, trained with this balancing strategy."""
    features, labels, groups = examples([1900, 100, 100, 1900], seed)
    names = [NAMES[group] for group in groups.tolist()]
    balancer = create(strategy, sizes=Counter(names))
    sampler = BalancedBatchSampler(names, balancer, batch_size=64, seed=seed)
    group_loss = GroupLoss(sampler)
    loader = DataLoader(TensorDataset(features, labels, torch.arange(len(labels))), batch_sampler=sampler)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    done = 0
    while done < steps:
        for inputs, answers, indices in loader:
            losses = cross_entropy(model(inputs), answers, reduction="none")
            group_loss(losses, [names[index] for index in indices.tolist()]).backward()
            optimizer.step()
            optimizer.zero_grad()
            group_loss.step()
            done += 1
            if done == steps:
                break
    return model


def accuracies(model: nn.Module) -> list[float]:
    """The accuracy of each group on held-out examples."""
    features, labels, groups = examples([2000] * 4, seed=10_000)
    right = (model(features).argmax(dim=1) == labels).double()
    return [right[groups == group].mean().item() for group in range(4)]


def main() -> None:
    """Train both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plain, robust = (accuracies(train(each, options.steps, options.seed)) for each in ("proportional", "group-dro"))
    print(f"{'accuracy (%)':15} {'proportional':>12} {'group-dro':>12}")
    for name, *values in [*zip(NAMES, plain, robust, strict=True), ("worst group", min(plain), min(robust))]:
        print(f"{name:15} {values[0]:12.1%} {values[1]:12.1%}")


if __name__ == "__main__":
    main()
