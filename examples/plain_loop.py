"""Balancing in a plain PyTorch loop: a character model of five languages of very different sizes.

Lines that balancing adds are marked with `# +`, lines that it changes with `# ~`.
"""

import argparse
import gzip
from collections import Counter  # +
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import evenglot
from evenglot.balance import create  # +
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


class CharacterModel(nn.Module):
    """Predicts every byte from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.output = nn.Embedding(256, 32), nn.Linear(128, 256)
        self.recurrent = nn.GRU(32, 128, batch_first=True)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of every byte, and which of them count."""
        inputs, labels = rows[:, :-1].clamp(min=0), rows[:, 1:]
        states, _ = self.recurrent(self.embed(inputs))
        return cross_entropy(self.output(states).mT, labels, ignore_index=-1, reduction="none"), labels >= 0


def validate(model: CharacterModel) -> dict[str, float]:
    """The mean loss of each language."""
    found = {}
    for name in LANGUAGES:
        rows, _ = collate([example for example in read("valid") if example[1] == name])
        with torch.no_grad():
            losses, counted = model(rows)
        found[name] = losses[counted].mean().item()
    return found


def main() -> None:
    """Train, and print what was sampled and the validation losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--strategy", default="fade", help="for example proportional, or chi-ibr")
    options = parser.parse_args()

    torch.manual_seed(1)
    sentences = read("train")
    languages = [name for _, name in sentences]  # +
    balancer = create(options.strategy, sizes=Counter(languages))  # +
    sampler = BalancedBatchSampler(languages, balancer, batch_size=32, interval_updates=50)  # +
    group_loss = GroupLoss(sampler)  # +
    loader = DataLoader(sentences, batch_sampler=sampler, collate_fn=collate)  # ~
    model = CharacterModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    done = 0
    while done < options.steps:
        for rows, names in loader:
            losses, counted = model(rows)
            group_loss(losses, names, counted).backward()  # ~
            optimizer.step()
            optimizer.zero_grad()
            group_loss.step()  # +
            done += 1
            if done == options.steps:
                break

    print(f"{'language':10} {'sentences':>10} {'sampled (%)':>12} {'validation loss':>16}")
    for name, loss in validate(model).items():
        print(f"{name:10} {languages.count(name):10} {balancer.q[name]:12.1%} {loss:16.3f}")


if __name__ == "__main__":
    main()
