"""A task with three groups of unequal sizes on which a linear model learns in no time."""

import json
from collections import Counter

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from evenglot.balance import create
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss

GROUPS = ["big"] * 240 + ["mid"] * 60 + ["low"] * 20
SIZES = dict(Counter(GROUPS))
NAMES = tuple(sorted(SIZES))


class Examples(torch.utils.data.Dataset):
    """Inputs and labels; `low` is the hardest group."""

    def __init__(self):
        chance = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(len(GROUPS), 6, generator=chance)
        noise = torch.tensor([{"big": 0.1, "mid": 0.5, "low": 2.0}[group] for group in GROUPS])
        truth = self.inputs @ torch.randn(6, 4, generator=chance)
        self.labels = (truth + noise[:, None] * torch.randn(len(GROUPS), 4, generator=chance)).argmax(dim=1)

    def __len__(self):
        return len(GROUPS)

    def __getitem__(self, index):
        return {"index": index, "input": self.inputs[index], "label": self.labels[index], "group": GROUPS[index]}


def new_model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)).double()


def losses_of(model, batch):
    return cross_entropy(model(batch["input"].double()), batch["label"], reduction="none")


class Loop:
    """A plain PyTorch loop with balancing, that can be saved and restored in any update."""

    def __init__(self, strategy="chi-ibr", options=None, workers=0, accumulate=1, wrap=None, **sampling):
        self.balancer = create(strategy, sizes=SIZES, **(options or {}))
        self.sampler = BalancedBatchSampler(
            GROUPS,
            self.balancer,
            **{"batch_size": 16, "interval_updates": 10, "seed": 5, **sampling},
            accumulate=accumulate,
        )
        self.items = None if accumulate == 1 else sampling["batch_size"] * accumulate * self.sampler.world
        self.loss = GroupLoss(self.sampler)
        self.model = new_model()
        self.trained = wrap(self.model) if wrap else self.model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        options = {"num_workers": workers, "prefetch_factor": 2, "multiprocessing_context": "fork"} if workers else {}
        self.loader = DataLoader(Examples(), batch_sampler=self.sampler, **options)
        self.served, self.mixtures = [], []

    def run(self, updates):
        """Train until so many updates have been done since the beginning."""
        done, batches = self.sampler.updates.trained, 0
        while done < updates:
            for batch in self.loader:
                self.loss(losses_of(self.trained, batch), batch["group"], items=self.items).backward()
                self.served.append(batch["index"].tolist())
                batches += 1
                if batches % self.sampler.accumulate:
                    continue
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.loss.step()
                self.mixtures.append(self.balancer.q)
                done += 1
                if done == updates:
                    break
        return self

    def saved(self):
        state = {"sampler": json.loads(json.dumps(self.sampler.state_dict()))}
        return state | {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restored(self, state):
        self.sampler.load_state_dict(state["sampler"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return self

    @property
    def weights(self):
        return torch.cat([weight.detach().flatten() for weight in self.model.parameters()])
