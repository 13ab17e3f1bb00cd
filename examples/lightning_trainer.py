"""Balancing in Lightning: a character model of five languages of very different sizes.

Lines that balancing adds are marked with `# +`, lines that it changes with `# ~`.
"""

import argparse
import gzip
from collections import Counter  # +
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import evenglot
from evenglot.balance import create  # +
from evenglot.integrations.lightning import BalancingCallback  # +
from evenglot.integrations.torch import BalancedBatchSampler, GroupLoss  # +

CORPUS = Path(evenglot.__file__).parent / "data" / "tiny_webui"
LANGUAGES = ["por", "tur", "ces", "slk", "glg"]  # 4,158 sentences to 300


def read(split: str) -> list[tuple[str, str]]:
    """Sentences with their languages."""
    files = {name: CORPUS / f"{split}.{name}-en.{name}.gz" for name in LANGUAGES}
    texts = {name: gzip.decompress(file.read_bytes()).decode() for name, file in files.items()}
    return [(line, name) for name, text in texts.items() for line in text.splitlines()]


def collate(examples: list[tuple[str, str]]) -> tuple[torch.Tensor, list[str]]:
    """Padded bytes between two zeros, and languages."""
    rows = [torch.tensor([0, *text.encode(), 0]) for text, _ in examples]
    return pad_sequence(rows, batch_first=True, padding_value=-1), [name for _, name in examples]


class CharacterModel(LightningModule):
    """Predicts every byte from those before it."""

    def __init__(self, group_loss: GroupLoss) -> None:  # ~
        super().__init__()
        self.group_loss = group_loss  # +
        self.embed, self.output = nn.Embedding(256, 32), nn.Linear(128, 256)
        self.recurrent = nn.GRU(32, 128, batch_first=True)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of every byte, and which of them count."""
        inputs, labels = rows[:, :-1].clamp(min=0), rows[:, 1:]
        states, _ = self.recurrent(self.embed(inputs))
        return cross_entropy(self.output(states).mT, labels, ignore_index=-1, reduction="none"), labels >= 0

    def training_step(self, batch: tuple[torch.Tensor, list[str]]) -> torch.Tensor:
        """The mean loss of the bytes."""
        rows, names = batch
        losses, counted = self(rows)
        return self.group_loss(losses, names, counted)  # ~

    def validation_step(self, batch: tuple[torch.Tensor, list[str]]) -> None:
        """Record the losses of each language; the callback logs them."""
        rows, names = batch
        losses, counted = self(rows)
        self.group_loss.validation(losses, names, counted)  # ~

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main() -> None:
    """Train, and print what was sampled and the validation losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--devices", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(1)
    sentences = read("train")
    languages = [name for _, name in sentences]  # +
    balancer = create("fade", sizes=Counter(languages))  # +
    sampler = BalancedBatchSampler(languages, balancer, batch_size=32 // options.devices, interval_updates=50)  # +
    loader = DataLoader(sentences, batch_sampler=sampler, collate_fn=collate)  # ~
    validation = DataLoader(read("valid"), batch_size=64, collate_fn=collate)
    trainer = Trainer(
        accelerator="cpu",
        devices=options.devices,
        max_steps=options.steps,
        callbacks=[BalancingCallback(sampler)],  # +
        use_distributed_sampler=False,  # +
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    model = CharacterModel(GroupLoss(sampler))  # ~
    trainer.fit(model, loader)
    (losses,) = trainer.validate(model, validation, verbose=False)

    if trainer.is_global_zero:
        print(f"{'language':10} {'sentences':>10} {'sampled (%)':>12} {'validation loss':>16}")
        for name in LANGUAGES:
            print(f"{name:10} {languages.count(name):10} {balancer.q[name]:12.1%} {losses[f'val_loss/{name}']:16.3f}")


if __name__ == "__main__":
    main()
