"""A small Lightning run on the groups of `task`, with losses of tokens and dropout."""

import warnings

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from evenglot.balance import create
from evenglot.integrations.lightning import BalancingCallback
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss
from tests.integrations.task import GROUPS, SIZES

WIDTH, TOKENS = 6, 5
MOVING = {"chi-ibr": {"rho": 0.3, "noise": "ignore"}, "group-dro": {"step": 0.5}, "cvar-pd": {"alpha": 0.6}}


class Sequences(torch.utils.data.Dataset):
    """Sequences of 1 to 5 tokens; `low` is the hardest group."""

    def __init__(self, count=320, seed=1):
        chance = torch.Generator().manual_seed(seed)
        self.groups = GROUPS[:: len(GROUPS) // count]
        self.inputs = torch.randn(count, TOKENS, WIDTH, generator=chance).double()
        noise = torch.tensor([{"big": 0.1, "mid": 0.5, "low": 2.0}[group] for group in self.groups])[:, None, None]
        truth = self.inputs @ torch.randn(WIDTH, 4, generator=torch.Generator().manual_seed(8)).double()
        self.labels = (truth + noise * torch.randn(count, TOKENS, 4, generator=chance)).argmax(dim=2)
        lengths = torch.randint(1, TOKENS + 1, (count,), generator=chance)
        self.mask = torch.arange(TOKENS) < lengths[:, None]

    def __len__(self):
        return len(self.groups)

    def __getitem__(self, index):
        return {
            "index": index,
            "input": self.inputs[index],
            "label": self.labels[index],
            "mask": self.mask[index],
            "group": self.groups[index],
        }


class Model(LightningModule):
    def __init__(self, group_loss, dropout=0.1, is_manual=False):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, 16), nn.Tanh(), nn.Dropout(dropout) if dropout else nn.Identity(), nn.Linear(16, 4)
        ).double()
        self.group_loss = group_loss
        self.automatic_optimization = not is_manual
        self.served = []

    def losses(self, batch):
        return cross_entropy(self.layers(batch["input"]).transpose(1, 2), batch["label"], reduction="none")

    def training_step(self, batch):
        self.served.append(batch["index"].tolist())
        loss = self.group_loss(self.losses(batch), batch["group"], batch["mask"])
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def validation_step(self, batch):
        self.group_loss.validation(self.losses(batch), batch["group"], batch["mask"])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


class Mixtures(Callback):
    """The mixture after every optimizer step."""

    def __init__(self, balancer):
        self.balancer, self.q = balancer, {}

    def on_train_batch_end(self, trainer, *_):
        self.q[trainer.global_step] = self.balancer.q


class Run:
    """A Lightning script, as a user would write it, that can be resumed from a checkpoint."""

    def __init__(
        self, folder, strategy="chi-ibr", options=None, workers=0, model=(), sampling=(), trainer=(), callbacks=()
    ):
        self.balancer = create(strategy, sizes=SIZES, **(MOVING.get(strategy, {}) if options is None else options))
        sampling = {"batch_size": 16, "interval_updates": 10, "seed": 5, **dict(sampling)}
        self.sampler = BalancedBatchSampler(GROUPS, self.balancer, **sampling)
        self.module = Model(GroupLoss(self.sampler), **dict(model))
        more = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
        self.loader = DataLoader(Sequences(), batch_sampler=self.sampler, **more)
        self.validation = DataLoader(Sequences(40, seed=2), batch_size=8)
        self.mixtures, self.balancing = Mixtures(self.balancer), BalancingCallback(self.sampler)
        self.folder, self.options = folder, dict(trainer)
        self.callbacks = [*callbacks, self.mixtures, self.balancing]

    def fit(self, checkpoint=None, **options):
        settings = {
            "accelerator": "cpu",
            "default_root_dir": self.folder,
            "max_epochs": -1,
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
            "callbacks": self.callbacks,
            "log_every_n_steps": 5,
        } | self.options
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning|torch")
            self.trainer = Trainer(**settings | options)
            self.trainer.fit(self.module, self.loader, self.validation, ckpt_path=checkpoint)
        return self

    @property
    def weights(self):
        return torch.cat([weight.detach().flatten() for weight in self.module.parameters()])
